import io

import keras
import numpy as np
import pytest

from keras_swim.apps.console import CommandError
from keras_swim.apps.image_files import (
    ImageError,
    check_image,
    encode_thumbnail,
    read_image,
)
from keras_swim.apps.image_rows import ImageRows, InputKind, check_equal_sizes
from keras_swim.layers.preprocessing import BicubicResizing

PIL = pytest.importorskip("PIL.Image")


def _saved(tmp_path, image, name, **options):
    path = tmp_path / name
    image.save(path, **options)
    return path


def test_pixels_are_the_files(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype("uint8")
    path = _saved(tmp_path, PIL.fromarray(pixels), "a.png")
    np.testing.assert_array_equal(read_image(path), pixels)
    assert read_image(path, channels=1).shape == (5, 7, 1)


def test_grey_palette_and_sixteen_bits_become_rgb(tmp_path):
    grey = np.arange(64, dtype="uint8").reshape(8, 8)
    for name, image in {
        "grey.png": PIL.fromarray(grey),
        "palette.png": PIL.fromarray(grey).convert("P"),
        "deep.png": PIL.fromarray(grey.astype("uint16") * 257),
    }.items():
        read = read_image(_saved(tmp_path, image, name))
        np.testing.assert_array_equal(read, np.repeat(grey[..., None], 3, axis=2))


def test_transparent_pixels_are_white(tmp_path):
    pixels = np.zeros((2, 2, 4), "uint8")
    pixels[0, 0, 3] = 255
    read = read_image(_saved(tmp_path, PIL.fromarray(pixels), "a.png"))
    assert read[0, 0].tolist() == [0, 0, 0]
    assert read[1, 1].tolist() == [255, 255, 255]


def test_photographs_are_turned_upright(tmp_path):
    image = PIL.fromarray(np.zeros((10, 20, 3), "uint8"))
    exif = image.getexif()
    exif[0x0112] = 6  # The camera was held on its side.
    path = _saved(tmp_path, image, "a.jpg", exif=exif)
    assert read_image(path).shape == (20, 10, 3)


def test_first_picture_of_an_animation(tmp_path):
    frames = [PIL.new("RGB", (4, 4), color) for color in ("red", "blue")]
    path = tmp_path / "a.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert read_image(path)[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("content", [b"", b"text", b"\x89PNG\r\n\x1a\n" + b"0" * 50])
def test_what_is_no_image(content, tmp_path):
    with pytest.raises(ImageError):
        check_image(content)
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(ImageError):
        read_image(tmp_path / "x.png")
    with pytest.raises(ImageError):
        read_image(tmp_path / "gone.png")


def test_thumbnails_are_small():
    data = encode_thumbnail(np.full((900, 300, 1), 128, "uint8"))
    image = PIL.open(io.BytesIO(data))
    assert image.format == "JPEG"
    assert max(image.size) <= 144


def test_rows_are_resized_as_a_model_would(photos):
    paths = sorted(photos.glob("*/*"))
    rows = ImageRows(paths, np.arange(len(paths)), InputKind((12, 12), 3), 8)
    assert len(rows) == 4
    resize = BicubicResizing(12, 12)
    seen = []
    for i in (0, 2, 1, 3, 3):
        x, y = rows[i]
        seen += y.tolist()
        for image, row in zip(x, y, strict=True):
            own = read_image(paths[row])[None].astype("float32")
            expected = keras.ops.convert_to_numpy(resize(own))[0]
            np.testing.assert_allclose(image, expected, atol=1e-4)
    assert sorted(set(seen)) == list(range(30))


def test_rows_shuffle_and_keep_labels_and_weights(photos):
    paths = sorted(photos.glob("*/*.png"))
    labels = np.arange(len(paths))
    rows = ImageRows(paths, labels, InputKind((4, 4), 3), 5, labels * 2.0, shuffle=1)
    epochs = []
    for _ in range(2):
        batches = [rows[i] for i in range(len(rows))]
        epochs.append(np.concatenate([y for _, y, _ in batches]))
        for _, y, weight in batches:
            np.testing.assert_array_equal(weight, 2.0 * y)
        rows.on_epoch_end()
    assert epochs[0].tolist() != epochs[1].tolist()
    assert sorted(epochs[0]) == sorted(epochs[1]) == labels.tolist()


def test_a_file_that_vanishes_is_named(photos):
    paths = sorted(photos.glob("red/*"))
    rows = ImageRows(paths, None, InputKind((4, 4), 3), 4)
    paths[2].unlink()
    with pytest.raises(CommandError, match=str(paths[2].name)):
        rows[0]


def test_models_without_a_size_want_equal_images(photos):
    paths = sorted(photos.glob("*/*"))
    check_equal_sizes(paths[:1], InputKind(None, 3))
    with pytest.raises(CommandError, match="--image-size"):
        check_equal_sizes(paths, InputKind(None, 3))
