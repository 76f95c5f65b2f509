"""The explorer: a page on which one moves a latent and sees what it does.

`listing` finds runs, `facts` says what the page needs to know of one, `server` serves the page on
this machine, `export` writes it as files for any web server. The page itself is in `page/`.
"""
