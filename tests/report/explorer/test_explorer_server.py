"""The explorer's server: what it answers, and what it refuses."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi")
pytest.importorskip("onnx")

from unweave.data.framing import Framing
from unweave.report.explorer import upload
from unweave.report.explorer.gate import COOKIE, Gate, is_loopback
from unweave.report.explorer.listing import data_key
from unweave.report.explorer.server import MOST_CODES, make_app
from unweave.types import UserError

KEY = data_key("sprites")


@pytest.fixture(scope="module")
def get(catalogue, serve):
    """Requests to a server without onnxruntime-web."""
    with serve(make_app(catalogue, Gate.of("127.0.0.1", None), vendor=None, title="t")) as client:
        yield client


def error_of(answer):
    return json.loads(answer.body)["error"]


def png(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, format="PNG")
    return out.getvalue()


def test_the_page_and_its_files_come_with_safe_headers(get):
    page = get("/")
    assert page.status == 200
    assert b"<title>unweave explorer</title>" in page.body
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "'wasm-unsafe-eval'" in policy
    assert "'unsafe-inline'" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert get("/app.js").headers["Content-Type"].startswith("text/javascript")
    assert get("/docs").status == get("/openapi.json").status == 404


def test_the_list_says_what_each_run_is(get, folder):
    listing = get.json("/data/runs.json")
    assert listing["runtime"] == "server"
    assert listing["higher"]["mig"] is True
    rows = {row["id"]: row for row in listing["runs"]}
    assert len(rows) == 5
    first = rows[folder.runs[0].run_id]
    assert first["scores"] == {"mig": 0.31, "dci.disentanglement": 0.155}
    assert first["letters"] == {"beta": 4.0}
    assert first["problem"] == ""
    assert "diverged" in rows[folder.diverged.run_id]["problem"]


def test_facts_of_a_run_name_latents_factors_and_shared_information(get, folder):
    facts = get.json(f"/data/runs/{folder.runs[2].run_id}/run.json")
    assert [latent["values"] for latent in facts["latents"]] == [0, 0, 0, 3]
    assert facts["factors"] == ["shape", "scale", "position_x", "position_y"]
    information = np.array(get.json(f"/data/runs/{folder.runs[2].run_id}/information.json"))
    assert information.shape == (4, 4)
    assert (information >= 0).all()
    assert (information <= 1).all()
    assert information.max() > 0.05
    assert all(latent["reach"] >= 3 for latent in facts["latents"])
    assert str(folder.path) not in json.dumps(facts)


def test_graphs_are_those_of_the_run(get, folder):
    from unweave.training.onnx_graph import decoder_onnx, encoder_onnx

    run = folder.runs[0]
    assert get(f"/data/runs/{run.run_id}/decoder.onnx").body == decoder_onnx(run)
    assert get(f"/data/runs/{run.run_id}/encoder.onnx").body == encoder_onnx(run)


def test_the_server_decodes_and_encodes_for_browsers_that_cannot(get, folder, sprites):
    run = folder.runs[0]
    codes = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    answer = get(f"/api/runs/{run.run_id}/decode", "POST", codes.tobytes())
    images = np.frombuffer(answer.body, np.float32).reshape(3, 64, 64, 1)
    np.testing.assert_array_equal(images, run.decode(codes))
    inputs = sprites.images([3, 7]) / np.float32(255)
    answer = get(f"/api/runs/{run.run_id}/encode", "POST", inputs.tobytes())
    np.testing.assert_allclose(np.frombuffer(answer.body, np.float32).reshape(2, 5),
                               run.encode(inputs), atol=1e-6)
    for body, sentence in ((b"", "expected float32"), (b"12345", "expected float32"),
                           (np.full(5, np.nan, np.float32).tobytes(), "finite"),
                           (bytes(20 * (MOST_CODES + 1)), "at most")):
        answer = get(f"/api/runs/{run.run_id}/decode", "POST", body)
        assert answer.status == 422
        assert sentence in error_of(answer)


def test_an_unknown_run_and_a_broken_one_are_one_sentence(get, folder):
    answer = get("/data/runs/nobody/run.json")
    assert answer.status == 404
    assert error_of(answer) == "there is no run 'nobody' here"
    answer = get(f"/data/runs/{folder.broken.run_id}/run.json")
    assert answer.status == 422
    assert "damaged or not a safetensors file" in error_of(answer)
    assert str(folder.path) not in error_of(answer)
    answer = get(f"/data/runs/{folder.diverged.run_id}/decoder.onnx")
    assert answer.status == 422
    assert "diverged" in error_of(answer)


@pytest.mark.parametrize("path", [
    "/../server.py", "/..%2fserver.py", "/%2e%2e/gate.py", "/vendor/..%2f..%2fserver.py",
    "/data/runs/..%2f..%2f..%2fetc%2fpasswd/run.json", "/data/runs/ID/..%2fconfig.json",
    "/data/runs/ID/weights.safetensors", "/data/images/..%2f..%2fx.json", "/page/app.js",
    "//etc/passwd", "/data/runs/%00/run.json"])
def test_no_path_leads_out(get, folder, path):
    answer = get(path.replace("ID", folder.runs[0].run_id))
    assert answer.status == 404
    assert "error" in json.loads(answer.body)


def test_images_are_picked_by_their_factors(get, sprites):
    record = get.json(f"/api/images/{KEY}?f0=1&f2=3&seed=5")
    assert len(record["index"]) > 4
    assert all(row[0] == 1 and row[2] == 3 for row in record["rows"])
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(record["sheet"]))))
    np.testing.assert_array_equal(sheet[:64, :64, None], sprites.images([record["index"][0]])[0])
    one = get.json(f"/api/images/{KEY}?index=200")
    assert one["index"] == [200]
    for query in ("f9=1", "f0=7", "fx=1", "f0=-1", "index=256", "index=-1",
                  f"f0={'9' * 5000}", f"f{'9' * 5000}=1"):
        assert get(f"/api/images/{KEY}?{query}").status == 422, query
    assert get("/api/images/unknown").status == 404
    sample = get.json(f"/data/images/{KEY}.json")
    assert len(set(sample["index"])) == 240
    assert sample["rows"][0] == [1, 1, 4, 4], "the middle comes first"


def test_uploads_are_framed_like_the_data_set(get):
    wide = np.zeros((40, 100, 3), np.uint8)
    wide[:, 30:70] = 255
    answer = get(f"/api/frame/{KEY}", "POST", png(wide))
    assert answer.status == 200
    pixels = np.frombuffer(answer.body, np.uint8).reshape(64, 64)
    assert (pixels == 255).all(), "the centre square is white"


def test_uploads_of_16_bits_are_made_bytes_like_own_images(get, tmp_path):
    deep = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    expected = Framing(channels=1).read(tmp_path / "deep.png")
    answer = get(f"/api/frame/{KEY}", "POST", (tmp_path / "deep.png").read_bytes())
    np.testing.assert_array_equal(np.frombuffer(answer.body, np.uint8).reshape(64, 64, 1), expected)
    assert (expected < 255).mean() > 0.99, "not clipped to white"


def test_uploads_that_are_no_pictures_too_large_or_bombs_are_refused(get, monkeypatch):
    for payload in (b"", b"GIF89a and then nothing", b"<svg xmlns='x'/>", b"%!PS-Adobe-3.0 EPSF\n",
                    png(np.zeros((9, 9), np.uint8))[:-30]):
        answer = get(f"/api/frame/{KEY}", "POST", payload)
        assert answer.status == 422
        assert "not a picture" in error_of(answer)
    answer = get(f"/api/frame/{KEY}", "POST", bytes(upload.MAX_BYTES + 1))
    assert answer.status == 422
    assert "8 MB" in error_of(answer)
    bomb = png(np.zeros((7000, 7000), np.uint8))  # a few kilobytes, 49 million pixels
    assert len(bomb) < 200_000
    answer = get(f"/api/frame/{KEY}", "POST", bomb)
    assert answer.status == 422
    assert "7000 x 7000 pixels" in error_of(answer)


def test_transparent_parts_become_white_and_colour_becomes_grey():
    picture = np.zeros((8, 8, 4), np.uint8)
    assert (upload.read_picture(png(picture), (8, 8, 3)) == 255).all()
    picture[..., 1], picture[..., 3] = 255, 255
    assert (upload.read_picture(png(picture), (8, 8, 1)) == 150).all(), "luma of green"


def test_foreign_names_and_foreign_pages_are_refused(get):
    assert get("/data/runs.json", Host="evil.example").status == 421
    assert get("/data/runs.json", Host="localhost:1").status == 200
    assert get("/data/runs.json", Origin="http://evil.example").status == 403
    assert get("/data/runs.json", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors"
               ).status == 403
    assert get("/data/runs.json", Origin="http://[").status == 403
    same = f"127.0.0.1:{get.port}"
    assert get("/data/runs.json", Origin=f"http://{same}").status == 200


def test_beyond_this_machine_a_token_is_needed(catalogue, serve):
    gate = Gate.of("0.0.0.0", None)
    assert len(gate.token) >= 24
    with serve(make_app(catalogue, gate, vendor=None)) as get:
        for path in ("/", "/data/runs.json", "/app.js", "/?token=wrong", "/nothing"):
            assert get(path).status == 401, path
        first = get(f"/?token={gate.token}")
        assert first.status == 303
        assert first.headers["Location"] == "/"
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert get("/data/runs.json", Cookie=cookie.split(";")[0]).status == 200
        assert get("/data/runs.json", Cookie=f"{COOKIE}=wrong").status == 401
        assert get("/data/runs.json", Authorization=f"Bearer {gate.token}").status == 200
        assert get("/data/runs.json", Authorization=f"Bearer {gate.token}", Host="evil.example"
                   ).status == 421


def test_gates():
    assert Gate.of("127.0.0.1", None).token is None
    assert Gate.of("localhost", "a-token-of-mine").token == "a-token-of-mine"
    assert is_loopback("::1")
    assert is_loopback("127.8.8.8")
    assert not is_loopback("192.168.0.9")
    assert not is_loopback("example.org")
    with pytest.raises(UserError, match="a token has 12"):
        Gate.of("127.0.0.1", "short")
