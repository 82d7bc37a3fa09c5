"""Image files as arrays, and back as thumbnails."""

import io

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# Pillow decodes JPEG files several times faster at an eighth of their size; a
# truncated file shows itself there too.
_CHECK_SIZE = (64, 64)
_THUMBNAIL_SIZE = 144
_MODES = {1: "L", 3: "RGB"}


class ImageError(Exception):
    """A file that is no image, or a damaged one."""


def check_image(content):
    """Raises an `ImageError` unless bytes can be decoded as an image."""
    with _opened(content) as image:
        image.draft("RGB", _CHECK_SIZE)
        _load(image)


def read_image(path, channels=3):
    """`(height, width, channels)` pixels of an image file, 0 to 255.

    Photographs are turned upright as their camera noted it, transparent pixels
    become white, and of an animation the first picture counts.

    Args:
        path: Path of the file.
        channels: 3, or 1 for grey.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ImageError(error.strerror or str(error)) from error
    with _opened(content) as image:
        _load(image)
        pixels = np.asarray(_flat(ImageOps.exif_transpose(image), channels))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def thumbnail(path):
    """A small JPEG of an image file, as bytes."""
    return encode_thumbnail(read_image(path))


def encode_thumbnail(pixels):
    """A small JPEG of `(height, width, channels)` pixels, as bytes."""
    pixels = np.asarray(pixels, np.uint8)
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image = image.convert("RGB")
    if max(image.size) > _THUMBNAIL_SIZE:
        image.thumbnail((_THUMBNAIL_SIZE, _THUMBNAIL_SIZE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return file.getvalue()


def _opened(content):
    if not content:
        raise ImageError("an empty file")
    try:
        return Image.open(io.BytesIO(content))
    except UnidentifiedImageError as error:
        raise ImageError("not an image, whatever its name says") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"cannot be read: {error}") from error


def _load(image):
    try:
        image.load()
    # Pillow's decoders raise all of these for damaged files.
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        raise ImageError(f"damaged: {error}") from error


def _flat(image, channels):
    mode = _MODES[channels]
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    elif image.mode.startswith("I;16") or image.mode == "I":
        # 16 bits: Pillow would clip instead of scaling.
        pixels = np.asarray(image).astype(float) / 257.0
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    return image.convert(mode)
