"""Reports: tables, sheets of pictures, the demo. Reads what training and scoring wrote."""
