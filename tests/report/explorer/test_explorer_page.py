"""The explorer's page in a real browser: what is drawn is what the run's decoder gives."""

import functools
import http.server
import io
import re
import shutil
import threading

import numpy as np
import pytest
from PIL import Image

from random_runs import random_run, write_run
from unweave.data.dataset import BytePixels, FactorDataset
from unweave.factors import FactorSpace

pytest.importorskip("fastapi")
pytest.importorskip("onnx")

from unweave.report.explorer import vendor
from unweave.report.explorer.export import write_export
from unweave.report.explorer.gate import Gate
from unweave.report.explorer.listing import Catalogue, data_key, find_runs
from unweave.report.explorer.server import make_app
from unweave.report.explorer.upload import read_picture

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
READ = """canvas => {
  const pen = canvas.getContext("2d");
  return Array.from(pen.getImageData(0, 0, canvas.width, canvas.height).data);
}"""


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                 None)
    if found is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives browsers")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, headless=True, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def libraries():
    folder = vendor.find()
    if folder is None:
        pytest.skip("onnxruntime-web is not here: python -m unweave.report.explorer.vendor --cache")
    return folder


@pytest.fixture(scope="module")
def address(catalogue, serve, libraries):
    app = make_app(catalogue, Gate.of("127.0.0.1", None), vendor=libraries, title="random runs")
    with serve(app) as client:
        yield client.url


@pytest.fixture(scope="module")
def context(browser):
    with browser.new_context(viewport={"width": 1280, "height": 900}) as made:
        made.set_default_timeout(20_000)
        yield made


@pytest.fixture
def page(context):
    """A tab in which nothing may go wrong unsaid."""
    tab, wrong = context.new_page(), []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text)
           if message.type == "error" and "Failed to load resource" not in message.text else None)
    yield tab
    tab.close()
    assert not wrong


def wait_for(page, condition, **values):
    """Until an expression of the page is true; not by eval, which the page forbids."""
    page.wait_for_function(f"({{{', '.join(values)}}}) => {condition}", arg=values)


def open_page(page, address, hash=""):
    page.goto("about:blank")  # a link to the same page would not load it again
    page.goto(address + hash)
    page.wait_for_selector("body[data-ready]")


def settled(page, side="a"):
    """The code on show, once its picture is drawn."""
    page.wait_for_function("""side => {
      const panel = document.querySelector(`.panel-${side}`);
      const code = panel.querySelector("[data-role=picture]").dataset.code;
      const valueOf = row => Number(row.querySelector("input, select")
        .getAttribute("aria-valuetext").replace("class ", ""));
      const shown = [...panel.querySelectorAll(".latent")].sort(
        (a, b) => a.dataset.latent - b.dataset.latent).map(valueOf);
      return code && code.split(" ").every((v, j) => Math.abs(v - shown[j]) < 0.0051);
    }""", arg=side)
    said = page.locator(f".panel-{side} [data-role=picture]").get_attribute("data-code")
    return np.array([said.split()], np.float32)


def pixels(page, selector):
    """Grey levels of a canvas `[height, width]`."""
    canvas = page.locator(selector).first
    values = np.array(canvas.evaluate(READ), np.uint8)
    width = canvas.evaluate("canvas => canvas.width")
    return values.reshape(-1, width, 4)[..., 0].astype(int)


def check_picture(page, run, side="a", role="picture", code=None):
    code = settled(page, side) if code is None else code
    expected = np.round(run.decode(code)[0, ..., 0] * 255).astype(int)
    found = pixels(page, f".panel-{side} [data-role={role}]")
    assert np.abs(found - expected).max() <= 1
    return found


def drag(page, latent, to, side="a"):
    """Move a slider with the mouse, to a share of its length."""
    slider = page.locator(f".panel-{side} [data-latent='{latent}'] input")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(box["x"] + box["width"] * (0.5 + (to - 0.5) * step / 8), middle)
    page.mouse.up()


def used_latent(page, side="a"):
    """The latent of the first row."""
    return int(page.locator(f".panel-{side} .latent").first.get_attribute("data-latent"))


def picture_file(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG")
    return out.getvalue()


def test_a_dragged_slider_draws_what_the_decoder_gives(page, address, folder, sprites):
    open_page(page, address)
    best = folder.runs[0]
    assert page.locator(".panel-a code").inner_text() == best.run_id, "the best MIG comes first"
    before = check_picture(page, best)
    middle = sprites.images(sprites.index([[1, 1, 4, 4]]))
    np.testing.assert_array_equal(pixels(page, "#image-0"), middle[0, ..., 0])
    np.testing.assert_allclose(settled(page), best.encode(middle), atol=2e-3)
    j = used_latent(page)
    start = settled(page)
    drag(page, j, 0.95)
    code = settled(page)
    assert code[0, j] > 2.0
    others = [k for k in range(5) if k != j]
    np.testing.assert_array_equal(code[0, others], start[0, others])
    after = check_picture(page, best)
    assert np.abs(after - before).mean() > 1.0, "the picture has changed"
    # The strip shows the same walk: its last tile is the largest value.
    wait_for(page, "document.querySelector('.panel-a').dataset.strips === "
                   "document.querySelector('.panel-a [data-role=picture]').dataset.code")
    reach = float(page.locator(f"[data-latent='{j}'] input").get_attribute("max"))
    code[0, j] = reach
    strip = pixels(page, f".panel-a [data-latent='{j}'] .strip")
    expected = np.round(best.decode(code)[0, ..., 0] * 255).astype(int)
    assert strip.shape == (64, 9 * 66 - 2)
    assert np.abs(strip[:, -64:] - expected).max() <= 1
    taken = page.evaluate(
        "performance.getEntriesByName('slider-to-picture').map(entry => entry.duration)")
    print(f"slider to picture: median {np.median(taken):.1f} ms of {len(taken)}")
    assert np.median(taken) < 300, "ten times the goal: something waits"


def test_categorical_latents_are_a_choice(page, address, folder):
    run = folder.runs[2]
    open_page(page, address, f"#a={run.run_id}")
    choice = page.locator(".panel-a [data-latent='3'] select")
    if not choice.is_visible():
        page.locator(".panel-a .unused summary").click()
    seen = set()
    for value in range(3):
        choice.select_option(str(value))
        code = settled(page)
        assert code[0, 3] == value
        seen.add(check_picture(page, run).tobytes())
    assert len(seen) == 3


@pytest.mark.parametrize("method", ["vade", "infowgan_gp"])
def test_mixtures_and_generators_open_and_move(page, serve, libraries, sprites, tmp_path, method):
    run = (random_run(data=sprites, method="vade", num_latents=3, clusters=3)
           if method == "vade" else
           random_run("infowgan-shapes2d", data=sprites, method=method, num_latents=2,
                      num_noise=4, categories="3"))
    write_run(run, tmp_path / "runs", [("mig", 0.1)])
    catalogue = find_runs([tmp_path / "runs"], datasets={"sprites": sprites})
    app = make_app(catalogue, Gate.of("127.0.0.1", None), vendor=libraries, title="others")
    with serve(app) as client:
        open_page(page, client.url, f"#a={run.run_id}")
        check_picture(page, run)
        if page.locator(".panel-a .unused:not([open])").count():
            page.locator(".panel-a .unused summary").click()
        page.locator(".panel-a [data-latent='1'] input").fill("0.5")
        assert settled(page)[0, 1] == 0.5
        check_picture(page, run)
        page.locator(".panel-a [data-role=prior]").click()
        drawn = settled(page)
        assert np.abs(run.prior_codes(64) - drawn).max(1).min() < 0.01
        measure = "KL" if method == "vade" else "MI"
        assert page.locator(".panel-a .kl").first.inner_text().startswith(measure)
        if method != "vade":
            page.locator(".panel-a [data-latent='2'] select").select_option("2")
            assert settled(page)[0, 2] == 2
            check_picture(page, run)


def test_own_pictures_are_encoded_and_broken_ones_refused(page, address, folder):
    open_page(page, address)
    drawing = np.zeros((120, 200), np.uint8)
    drawing[30:80, 70:130] = 255
    payload = picture_file(drawing)
    page.locator("#file-0").set_input_files(
        {"name": "drawing.png", "mimeType": "image/png", "buffer": payload})
    wait_for(page, "document.getElementById('label-0').textContent === 'drawing.png'")
    framed = read_picture(payload, (64, 64, 1))
    np.testing.assert_array_equal(pixels(page, "#image-0"), framed[..., 0])
    expected = folder.runs[0].encode(framed[None])
    wait_for(page, "document.querySelector('[data-role=picture]').dataset.code.startsWith(code)",
             code=f"{expected[0, 0]:.4f}"[:4])
    np.testing.assert_allclose(settled(page), expected, atol=2e-3)
    check_picture(page, folder.runs[0])
    page.locator("#file-1").set_input_files(
        {"name": "broken.png", "mimeType": "image/png", "buffer": b"\x89PNG and no more"})
    page.wait_for_selector("#said[data-kind=problem]")
    assert "not a picture that can be read" in page.locator("#said").inner_text()
    assert page.locator("#label-1").inner_text() != "broken.png"


def test_runs_are_filtered_sorted_and_compared(page, address, folder):
    open_page(page, address)
    rows = page.locator("#runs tbody tr")
    assert rows.count() == 5
    page.locator("#filter").fill("mig>0.15")
    assert rows.count() == 2
    assert page.locator("#count").inner_text() == "2 of 5 runs"
    page.locator("#filter").fill("mig>0.15 joint")
    assert rows.count() == 1
    page.locator("#filter").fill("nothing-like-this")
    assert "No run fits" in rows.first.inner_text()
    page.locator("#filter").fill("")
    page.locator("#runs [data-key=mig]").click()
    assert page.locator("#runs th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert rows.first.get_attribute("data-run") == folder.runs[1].run_id
    assert page.locator(f"[data-run='{folder.diverged.run_id}'] button").first.is_disabled()
    page.locator(f"[data-run='{folder.runs[1].run_id}'] .side-b").click()
    page.wait_for_selector(".panel-b")
    check_picture(page, folder.runs[1], side="b")
    check_picture(page, folder.runs[0], side="a")
    boxes = [page.locator(f".panel-{side}").bounding_box() for side in "ab"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"], "side by side"
    drag(page, used_latent(page, "b"), 0.1, side="b")
    check_picture(page, folder.runs[1], side="b")
    page.locator(".panel-b [data-role=close]").click()
    assert page.locator(".panel-b").count() == 0


def test_images_are_picked_by_factors_and_latents_swapped(page, address, folder, sprites):
    run = folder.runs[0]
    open_page(page, address)
    page.locator("#picker summary").click()
    page.locator("#filters select").nth(0).select_option("1")
    page.locator("#filters select").nth(2).select_option("5")
    wait_for(page, "[...document.querySelectorAll('.tile')].every(tile => "
                   "tile.title.startsWith('shape 1') && tile.title.includes('position_x 5'))")
    tile = page.locator(".tile").first
    index = int(tile.get_attribute("data-index"))
    assert list(sprites.factors([index])[0][[0, 2]]) == [1, 5]
    page.locator("#into-1").check()
    tile.click()
    second = run.encode(sprites.images([index]))
    wait_for(page, "location.hash.includes(`y=${index}`)", index=index)
    first = settled(page)
    j = used_latent(page)
    page.locator(f".panel-a [data-latent='{j}'] .swap").click()
    wait_for(page, "document.querySelector('.small figure:last-child').innerText.includes('of 1')")
    mixed, partner = first.copy(), second.copy()
    mixed[0, j], partner[0, j] = second[0, j], first[0, j]
    np.testing.assert_allclose(settled(page), mixed, atol=2e-3)
    check_picture(page, run)
    expected = np.round(run.decode(partner)[0, ..., 0] * 255)
    assert np.abs(pixels(page, ".panel-a [data-role=decoded-2]") - expected).max() <= 2
    # Back on image 1, by the button or by the key: the second image has its own again, too.
    for back in (page.locator(f".panel-a [data-latent='{j}'] .swap").click,
                 functools.partial(page.locator(f".panel-a [data-latent='{j}'] input").press, "r")):
        back()
        np.testing.assert_allclose(settled(page), first, atol=2e-3)
        wait_for(page, "document.querySelector('.small figure:last-child').innerText === 'decoded'")
        swap = page.locator(f".panel-a [data-latent='{j}'] .swap")
        assert swap.get_attribute("aria-pressed") == "false"
        swap.click()


def test_a_link_brings_everything_back(page, address, folder):
    a, b = folder.runs[0].run_id, folder.runs[1].run_id
    code = [0.5, -1.25, 2.0, 0.125, -0.75]
    words = "+".join(map(str, code))
    open_page(page, address, f"#a={a}&za={words}&b={b}&x=17&y=203")
    np.testing.assert_allclose(settled(page), [code], atol=1e-3)
    check_picture(page, folder.runs[0])
    check_picture(page, folder.runs[1], side="b")
    assert page.locator("#label-0").inner_text().startswith("shape 0")
    wait_for(page, "location.hash.includes('x=17') && location.hash.includes('y=203')")
    drag(page, used_latent(page), 0.2)
    moved = settled(page)
    page.wait_for_timeout(300)
    link = page.evaluate("location.hash")
    open_page(page, address, link)
    np.testing.assert_allclose(settled(page), moved, atol=1e-3)


def test_an_unknown_run_and_a_broken_one_are_told(page, address, folder):
    open_page(page, address, "#a=nobody-0123456789")
    assert "there is no run nobody-0123456789" in page.locator("#said").inner_text()
    assert page.locator(".panel-a code").inner_text() == folder.runs[0].run_id
    page.locator(f"[data-run='{folder.broken.run_id}'] .side-a").click()
    wait_for(page, "document.getElementById('said').textContent.includes('not a safetensors')")
    check_picture(page, folder.runs[0])


def test_everything_works_from_the_keyboard(page, address, folder):
    open_page(page, address)
    j = used_latent(page)
    slider = page.locator(f".panel-a [data-latent='{j}'] input")
    slider.focus()
    image = settled(page)
    page.keyboard.press("0")
    assert settled(page)[0, j] == 0
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert settled(page)[0, j] == pytest.approx(0.15)
    check_picture(page, folder.runs[0])
    page.keyboard.press("r")
    np.testing.assert_allclose(settled(page), image, atol=1e-3)
    page.keyboard.press("s")
    swap = page.locator(f".panel-a [data-latent='{j}'] .swap")
    assert swap.get_attribute("aria-pressed") == "true"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"file-0", "random-0"} <= seen
    assert f"latent-a-{j}" in seen


def test_everything_has_a_name_for_screen_readers(page, address):
    open_page(page, address)
    page.locator("#picker summary").click()
    nameless = page.evaluate("""() => {
      const text = e => (e.getAttribute("aria-label") || e.innerText || e.title
        || [...(e.labels || [])].map(l => l.innerText).join(" ")).trim();
      return [...document.querySelectorAll(
        "button, input, select, [role=img], [role=region], section")].filter(
        e => !text(e) && !e.getAttribute("aria-labelledby")).map(e => e.outerHTML);
    }""")
    assert nameless == []
    page.wait_for_selector(".heat")
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    label = page.locator(".panel-a .latent input").first.get_attribute("aria-label")
    assert re.match(r"latent z\d.*KL [\d.]+ nats", label)


def test_the_table_says_which_latent_follows_which_factor(page, address, folder):
    from unweave.report.explorer.facts import information_record

    open_page(page, address)
    page.wait_for_selector(".heat")
    shares = np.round(100 * np.array(information_record(folder.runs[0])))
    rows = page.locator(".heat tbody tr")
    assert rows.count() == 5
    for i in range(5):
        j = int(rows.nth(i).locator("button").inner_text()[1:])
        cells = [int(text) for text in rows.nth(i).locator("td").all_inner_texts()]
        assert np.abs(np.array(cells) - shares[j]).max() <= 1
    used = used_latent(page)
    k = int(shares[used].argmax())
    follows = page.locator(f"[data-latent='{used}'] .follows").inner_text()
    assert follows.startswith(folder.runs[0].dataset.space.names[k])
    rows.last.locator("button").click()
    focused = page.evaluate("document.activeElement.id")
    assert focused == f"latent-a-{rows.last.locator('button').inner_text()[1:]}"


def test_pictures_and_gifs_are_saved(page, address, folder):
    run = folder.runs[0]
    open_page(page, address)
    code = settled(page)
    with page.expect_download() as waiting:
        page.locator("[data-role=save]").click()
    saved = np.asarray(Image.open(waiting.value.path()).convert("L")).astype(int)
    assert saved.shape == (512, 512)
    expected = np.round(run.decode(code)[0, ..., 0] * 255).astype(int)
    assert np.abs(saved[::8, ::8] - expected).max() <= 1
    with page.expect_download() as waiting:
        page.locator("[data-role=gif]").click()
    j = used_latent(page)
    assert waiting.value.suggested_filename == f"{run.run_id}-z{j}.gif"
    reach = float(page.locator(f"[data-latent='{j}'] input").get_attribute("max"))
    codes = np.repeat(code, 20, 0)
    codes[:, j] = np.linspace(-reach, reach, 20)
    expected = np.round(run.decode(codes)[..., 0] * 255).astype(int)
    with Image.open(waiting.value.path()) as gif:
        assert gif.size == (256, 256)
        assert gif.n_frames == 38
        for frame in (0, 7, 19):
            gif.seek(frame)
            levels = np.asarray(gif.convert("L")).astype(int)[::4, ::4]
            assert np.abs(levels - expected[frame]).max() <= 1


def test_all_in_turn_plays_the_latents_one_after_another(page, address, folder):
    run = folder.runs[2]
    open_page(page, address, f"#a={run.run_id}")
    start = settled(page)
    order = [int(row.get_attribute("data-latent"))
             for row in page.locator(".panel-a .latent").all()]
    page.locator(".panel-a select[aria-label='latent to animate']").select_option("all")
    page.get_by_role("button", name="Play").click()
    for j in order[:2]:  # the second only begins when the turn of the first is over
        wait_for(page, f"""(Number(document.querySelector(".panel-a [data-latent='{j}']")
            .querySelector("input, select").getAttribute("aria-valuetext").replace("class ", ""))
            - {start[0, j]}) ** 2 > 0.01""")
    page.get_by_role("button", name="Stop").click()
    code = settled(page)
    others = [j for j in range(code.shape[1]) if j != order[1]]
    np.testing.assert_allclose(code[0, others], start[0, others], atol=1e-3)
    check_picture(page, run)


def test_a_phone_in_the_dark(browser, address, folder):
    with browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark",
                             has_touch=True, is_mobile=True) as phone:
        page = phone.new_page()
        open_page(page, address, f"#a={folder.runs[0].run_id}&b={folder.runs[1].run_id}")
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        boxes = [page.locator(f".panel-{side}").bounding_box() for side in "ab"]
        assert boxes[1]["y"] > boxes[0]["y"] + boxes[0]["height"], "one above the other"
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", colour))) < 60
        # The picture is in view while the last slider is moved.
        page.locator(".panel-a .latents .latent input").last.scroll_into_view_if_needed()
        assert page.locator(".panel-a [data-role=picture]").evaluate(
            "canvas => canvas.getBoundingClientRect().top") >= 0
        check_picture(page, folder.runs[0])


def test_draws_from_the_prior_and_zero(page, address, folder):
    run = folder.runs[2]
    open_page(page, address, f"#a={run.run_id}")
    page.locator("[data-role=prior]").click()
    drawn = settled(page)
    assert np.abs(run.prior_codes(64) - drawn).max(1).min() < 1e-3
    check_picture(page, run)
    page.locator("[data-role=zero]").click()
    assert (settled(page) == 0).all()
    check_picture(page, run)
    page.locator("[data-role=reset]").click()
    assert np.abs(settled(page)).max() > 0


def test_an_export_works_from_a_plain_web_server(page, catalogue, folder, libraries, tmp_path):
    chosen = {run.run_id: catalogue.entries[run.run_id] for run in folder.runs[:2]}
    some = Catalogue(chosen, catalogue.higher_is_better, catalogue.datasets)
    write_export(some, tmp_path / "site" / "page", vendor=libraries, title="static", num_images=60)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Nothing: pytest's output is for tests."""

    handler = functools.partial(Quiet, directory=tmp_path / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/page/"
            open_page(page, address)
            check_picture(page, folder.runs[0])
            drag(page, used_latent(page), 0.9)
            check_picture(page, folder.runs[0])
            page.locator("#picker summary").click()
            page.locator("#filters select").nth(0).select_option("0")
            wait_for(page, "[...document.querySelectorAll('.tile')].every(tile => "
                           "tile.title.startsWith('shape 0'))")
            page.locator(".tile").nth(1).click()
            drawing = np.zeros((64, 64), np.uint8)
            drawing[10:30, 20:50] = 255
            page.locator("#file-0").set_input_files(
                {"name": "own.png", "mimeType": "image/png", "buffer": picture_file(drawing)})
            wait_for(page, "document.getElementById('label-0').textContent === 'own.png'")
            np.testing.assert_array_equal(pixels(page, "#image-0"), drawing)
            page.locator("#file-0").set_input_files(
                {"name": "no.png", "mimeType": "image/png", "buffer": b"no"})
            page.wait_for_selector("#said[data-kind=problem]")
            (tmp_path / "site" / "page" / "data" / "runs" / folder.runs[1].run_id
             / "decoder.onnx").write_bytes(b"broken")
            page.locator(f"[data-run='{folder.runs[1].run_id}'] .side-b").click()
            wait_for(page, "document.getElementById('said').textContent.includes('is damaged')")
        finally:
            server.shutdown()
            thread.join(5)


def test_colour_and_images_without_factors(page, serve, libraries, tmp_path):
    draw = np.random.default_rng(0)
    smooth = np.repeat(np.repeat(draw.integers(0, 256, (40, 4, 4, 3), np.uint8), 8, 1), 8, 2)
    photos = FactorDataset("photos", FactorSpace.without_factors(40), BytePixels(smooth))
    run = random_run(data=photos)
    found = find_runs([write_run(run, tmp_path)], datasets={"photos": photos})
    with serve(make_app(found, Gate.of("127.0.0.1", None), vendor=libraries)) as client:
        open_page(page, client.url)
        assert page.locator("#filters").is_hidden()
        assert page.locator(".heat").count() == 0
        page.locator("#picker summary").click()
        tile = page.locator(".tile").nth(3)
        index = int(tile.get_attribute("data-index"))
        assert tile.get_attribute("aria-label") == f"image {index}"
        tile.click()
        wait_for(page, "location.hash.includes(`x=${index}`)", index=index)
        code = settled(page)
        np.testing.assert_allclose(code, run.encode(photos.images([index])), atol=2e-3)
        expected = np.round(run.decode(code)[0] * 255).astype(int)
        shown = np.array(page.locator("[data-role=picture]").evaluate(READ)).reshape(32, 32, 4)
        assert np.abs(shown[..., :3] - expected).max() <= 1
        with page.expect_download() as waiting:
            page.locator("[data-role=gif]").click()
        j = used_latent(page)
        code[0, j] = -float(page.locator(f"[data-latent='{j}'] input").get_attribute("max"))
        expected = np.round(run.decode(code)[0] * 255).astype(int)
        with Image.open(waiting.value.path()) as gif:
            first = np.asarray(gif.convert("RGB")).astype(int)[::4, ::4]
        assert np.abs(first - expected).mean() < 10, "256 colours for all frames"


def test_images_that_come_late_do_not_replace_those_of_the_run_on_show(page, serve, libraries,
                                                                       sprites, tmp_path):
    draw = np.random.default_rng(0)
    photos = FactorDataset("photos", FactorSpace.without_factors(40), BytePixels(
        draw.integers(0, 256, (40, 64, 64, 1), np.uint8)))
    own, other = random_run(data=sprites, seed=1), random_run(data=photos, seed=2)
    for run, mig in ((own, 0.3), (other, 0.1)):
        write_run(run, tmp_path, [("mig", mig)])
    found = find_runs([tmp_path], datasets={"sprites": sprites, "photos": photos})
    with serve(make_app(found, Gate.of("127.0.0.1", None), vendor=libraries)) as client:
        open_page(page, client.url)
        label = page.locator("#label-0").inner_text()
        assert "shape" in label
        held = []
        page.route(f"**/data/images/{data_key('photos')}.json", lambda route: held.append(route))
        page.locator(f"tr[data-run='{other.run_id}'] .side-a").click()
        for _ in range(100):
            page.wait_for_timeout(100)
            if held:
                break
        page.locator(f"tr[data-run='{own.run_id}'] .side-a").click()
        settled(page)
        with page.expect_response(f"**/data/images/{data_key('photos')}.png"):
            held[0].continue_()
        page.wait_for_timeout(500)
        assert page.locator(".panel-a").get_attribute("aria-label") == f"run A: {own.run_id}"
        assert page.locator("#label-0").inner_text() == label
        assert page.locator("#filters select").count() > 0


def test_without_onnxruntime_the_server_makes_the_pictures(page, catalogue, serve, folder):
    with serve(make_app(catalogue, Gate.of("127.0.0.1", None), vendor=None)) as client:
        open_page(page, client.url)
        assert "the server makes its pictures" in page.locator("#said").inner_text()
        drag(page, used_latent(page), 0.8)
        check_picture(page, folder.runs[0])
