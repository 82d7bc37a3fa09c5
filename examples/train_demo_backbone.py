"""Trains the backbone that `keras-swim demo` uses, on drawn letters.

    python examples/train_demo_backbone.py             # about 10 minutes, 2 cores

A small convolutional network (`keras_swim.build.demo_backbone`) learns to tell 37
shapes of letters apart. They are drawn in the fonts that matplotlib carries, then
bent, blurred and coloured at random; nothing is downloaded. There is no digit among
them: digits are what the demo is about. (But an O is much like a 0.)

Needs `pip install keras-swim[plot]`. The package has its copy of the weights in
`keras_swim/build/demo_backbone.npz`.
"""

import argparse
import string
from pathlib import Path

import keras
import numpy as np

from keras_swim.build.demo_backbone import build_demo_backbone, save_demo_weights

SIZE = 32
# Letters are drawn larger, on paper that is larger still.
LETTER, CANVAS = 44, 64
FONTS = (
    *(f"DejaVuSans{kind}" for kind in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{kind}" for kind in ("", "-Bold", "-Oblique")),
    *(f"DejaVuSerif{kind}" for kind in ("", "-Bold", "-BoldItalic")),
    *(f"STIXGeneral{kind}" for kind in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmti10", "cmmi10"),
)
# Accuracy on letters is measured in fonts that were not trained with.
TEST_FONTS = ("DejaVuSerif-Italic", "DejaVuSansMono-BoldOblique", "cmss10", "cmtt10")
# Letters whose two cases have one shape are one class.
ONE_SHAPE = set("cijklmopsuvwxyz")
SHAPES = string.ascii_uppercase + "".join(
    letter for letter in string.ascii_lowercase if letter not in ONE_SHAPE
)
# Letters are shown as if they had been photographed at so many pixels.
RESOLUTIONS = (8, 10, 12, 16, 24, 32)
CHUNK = 500
BATCH = 128


def glyphs(fonts):
    """All letters in all fonts, thin and thick.

    Returns:
        `(n, 64, 64)` images of 0..1, and the `(n,)` number of their shape.
    """
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    images, shapes = [], []
    for name in fonts:
        font = ImageFont.truetype(str(folder / f"{name}.ttf"), 72)
        for letter in string.ascii_letters:
            shape = letter.upper() if letter in ONE_SHAPE else letter
            for stroke in range(0, 8, 2):
                images.append(glyph(font, letter, stroke))
                shapes.append(SHAPES.index(shape))
    return np.array(images, "float32") / 255, np.array(shapes)


def glyph(font, letter, stroke):
    """One letter, as large as fits into the middle of a square."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = font.getbbox(letter, stroke_width=stroke)
    drawn = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(drawn).text(
        (-left, -top), letter, fill=255, font=font, stroke_width=stroke, stroke_fill=255
    )
    ratio = LETTER / max(drawn.size)
    width, height = (max(1, round(ratio * side)) for side in drawn.size)
    square = Image.new("L", (CANVAS, CANVAS))
    drawn = drawn.resize((width, height), Image.Resampling.BILINEAR)
    square.paste(drawn, ((CANVAS - width) // 2, (CANVAS - height) // 2))
    return np.asarray(square)


def letters(glyphs, shapes, count, rng):
    """`count` letters as uint8 images, each drawn differently, and their shapes."""
    images, labels = [], []
    for start in range(0, count, CHUNK):
        pick = rng.integers(len(shapes), size=min(CHUNK, count - start))
        ink = blurred(bent(glyphs[pick], rng), rng)
        images.append(coloured(ink, rng))
        labels.append(shapes[pick])
    return np.concatenate(images), np.concatenate(labels)


def bent(squares, rng):
    """Turns, slants, stretches, shifts and warps each square, to 32 x 32."""
    n = len(squares)
    angle, slant = rng.uniform(-0.35, 0.35, (2, n, 1, 1))
    wide, high = rng.uniform(0.6, 1.05, (2, n, 1, 1)) * CANVAS / 2
    cos, sin = np.cos(angle), np.sin(angle)
    grid = np.linspace(-1, 1, SIZE)
    down, across = (axis[None] for axis in np.meshgrid(grid, grid, indexing="ij"))
    x, y = wide * (across + slant * down), high * down
    # A smooth field: a coarse grid of random shifts, interpolated linearly.
    knots = np.linspace(-1, 1, 5)
    weights = np.maximum(0, 1 - np.abs(grid[:, None] - knots) * 2)
    warp = rng.normal(0, 2.0, (2, n, 5, 5))
    warp = np.einsum("ik,ankl,jl->anij", weights, warp, weights)
    shift = rng.uniform(-4, 4, (2, n, 1, 1))
    centre = (CANVAS - 1) / 2
    rows = sin * x + cos * y + warp[0] + shift[0] + centre
    columns = cos * x - sin * y + warp[1] + shift[1] + centre
    return interpolated(squares, rows, columns)


def interpolated(squares, rows, columns):
    """Values of the squares between their pixels; outside, those at the edge."""
    rows, columns = (np.clip(value, 0, CANVAS - 1.001) for value in (rows, columns))
    top, left = rows.astype(int), columns.astype(int)
    down, across = rows - top, columns - left
    pick = np.arange(len(squares))[:, None, None]
    upper = (1 - across) * squares[pick, top, left]
    upper += across * squares[pick, top, left + 1]
    lower = (1 - across) * squares[pick, top + 1, left]
    lower += across * squares[pick, top + 1, left + 1]
    return (1 - down) * upper + down * lower


def blurred(ink, rng):
    """Fewer pixels, and enlarged again: one resolution for the whole batch."""
    size = int(rng.choice(RESOLUTIONS))
    ink = ink[..., None].astype("float32")
    if size < SIZE:
        resize = keras.ops.image.resize
        ink = resize(ink, (size, size), interpolation="bilinear", antialias=True)
        ink = resize(ink, (SIZE, SIZE), interpolation="bicubic")
    return np.clip(keras.ops.convert_to_numpy(ink), 0, 1)


def coloured(ink, rng):
    """Ink and paper of random colours or greys, with noise."""
    n = len(ink)
    paper, colour = rng.uniform(0, 255, (2, n, 1, 1, 3))
    grey = rng.random(n) < 0.5
    for shade in (paper, colour):
        shade[grey] = shade[grey].mean(axis=-1, keepdims=True)
    # Black on white, or white on black: half of them, and what could not be read.
    contrast = np.abs(colour - paper).max(axis=-1).ravel()
    full = (rng.random(n) < 0.5) | (contrast < 60)
    black = rng.integers(2, size=(n, 1, 1, 1)) * 255
    paper[full], colour[full] = black[full], 255 - black[full]
    noise = rng.normal(size=(n, SIZE, SIZE, 3)) * rng.uniform(0, 20, (n, 1, 1, 1))
    images = paper + ink * (colour - paper) + noise
    return np.clip(np.round(images), 0, 255).astype("uint8")


def train(backbone, images, shapes, epochs):
    """Trains the backbone with a classifier behind it, and returns both."""
    steps = epochs * -(-len(images) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=3e-3, warmup_steps=steps // 10
    )
    model = keras.Sequential([backbone, keras.layers.Dense(len(SHAPES))])
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA's convolutions are slow without an accelerator.
    )
    model.fit(images, shapes, batch_size=BATCH, epochs=epochs, verbose=2)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="demo_backbone.npz", help="for the weights")
    parser.add_argument("--images", type=int, default=90_000)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    images, shapes = letters(*glyphs(FONTS), arguments.images, rng)
    backbone = build_demo_backbone()
    model = train(backbone, images, shapes, arguments.epochs)
    save_demo_weights(backbone, arguments.out)
    test = letters(*glyphs(TEST_FONTS), min(5000, arguments.images), rng)
    accuracy = model.evaluate(*test, verbose=0)[1]
    print(f"accuracy on letters in unseen fonts: {accuracy:.3f}")


if __name__ == "__main__":
    main()
