"""Folders of images, one folder a class: what is in them, and what is wrong.

Everything is looked at before any long work: each file is decoded once, so that
none fails in the middle of a fit, and files are known by a digest of their bytes,
so that the same picture is never in the training and in the validation part.
"""

import hashlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keras_swim.apps.console import CommandError
from keras_swim.apps.image_files import ImageError, check_image
from keras_swim.apps.wording import counted

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff")
# What file managers leave behind.
_IGNORED = ("thumbs.db", "desktop.ini")


@dataclass
class Problem:
    """A file that cannot be used, and why."""

    path: Path
    reason: str

    def __str__(self):
        return f"{self.path}: {self.reason}"


@dataclass
class Images:
    """Some image files with their labels.

    Attributes:
        class_names: Name of each class.
        paths: One path an image.
        labels: `(n,)` numbers of the classes.
        digests: `(n,)` digest of each file's bytes, as text.
    """

    class_names: list[str]
    paths: list[Path]
    labels: np.ndarray
    digests: np.ndarray

    def __len__(self):
        return len(self.paths)

    @property
    def counts(self):
        """Number of images of each class."""
        return np.bincount(self.labels, minlength=len(self.class_names))

    def take(self, rows):
        """The images with these numbers."""
        return Images(
            self.class_names,
            [self.paths[row] for row in rows],
            self.labels[rows],
            self.digests[rows],
        )


@dataclass
class Scan:
    """What a folder holds: images that can be used, and files that cannot."""

    images: Images
    problems: list[Problem] = field(default_factory=list)


def scan_folder(folder, class_names=None, advance=None):
    """Looks through a folder with one folder of images for each class.

    Args:
        folder: Path.
        class_names: `None`: the names of its folders, sorted. Otherwise the
            classes of a model, to which the folders must belong.
        advance: `None`, or a function called with the number of files that there
            are and the number that was looked at.

    Returns:
        A `Scan`.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise CommandError(f"{folder} {what}. Pass a folder with one folder a class.")
    folders = _class_folders(folder)
    paths, labels, problems = [], [], _loose_files(folder)
    names = _class_names(folder, folders, class_names)
    for path in folders:
        for file in _files(path):
            if file.suffix.lower() in SUFFIXES:
                paths.append(file)
                labels.append(names.index(path.name))
            else:
                problems.append(Problem(file, "not an image file"))
    images, unreadable = _readable(names, paths, np.array(labels, int), advance)
    problems += unreadable
    images, contradicting = _without_contradictions(images)
    problems += contradicting
    if class_names is None:
        images = _without_empty(images)
        _check_classes(folder, images, problems)
    elif not len(images):
        raise CommandError(f"{folder} has no image that can be read.")
    return Scan(images, problems)


def find_images(paths):
    """Image files among paths of files and folders, and what is not one."""
    found, problems = [], []
    for path in map(Path, paths):
        if path.is_dir():
            files = [file for file in _files(path) if file.suffix.lower() in SUFFIXES]
            if not files:
                problems.append(Problem(path, "no image in this folder"))
            found += files
        elif path.exists():
            found.append(path)
        else:
            problems.append(Problem(path, "no such file"))
    return found, problems


def split_images(images, fraction, seed=0):
    """Splits every class; equal files stay together.

    Args:
        images: `Images`.
        fraction: Share of each class for the second part. A class with a single
            picture stays whole in the first.
        seed: Integer.

    Returns:
        Two `Images`.
    """
    rng = np.random.default_rng(seed)
    second = np.zeros(len(images), bool)
    for label in range(len(images.class_names)):
        rows = np.flatnonzero(images.labels == label)
        digests = rng.permutation(np.unique(images.digests[rows]))
        # At least one on either side, where there are two.
        count = round(fraction * len(digests))
        count = min(max(count, 1), len(digests) - 1)
        second[rows] = np.isin(images.digests[rows], digests[:count])
    return images.take(np.flatnonzero(~second)), images.take(np.flatnonzero(second))


def _class_folders(folder):
    folders = sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(".")
    )
    if not folders:
        raise CommandError(
            f"{folder} has no folders in it. Put the images of each class into a "
            "folder of their own, named after the class."
        )
    parts = [path for path in folders if path.name.lower() in ("train", "training")]
    if parts and all(_only_folders(path) for path in folders):
        others = [path for path in folders if path not in parts]
        advice = f"keras-swim fit {parts[0]}"
        if others:
            advice += f" --validation {others[-1]}"
        raise CommandError(
            f"The folders in {folder} hold folders, not images: they look like parts "
            f"of a data set, not like classes. Try: {advice}"
        )
    return folders


def _only_folders(path):
    inside = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    return bool(inside) and all(entry.is_dir() for entry in inside)


def _files(folder):
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.name.lower() not in _IGNORED
    )


def _loose_files(folder):
    return [
        Problem(path, "in no class folder")
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix.lower() in SUFFIXES
    ]


def _class_names(folder, folders, known):
    names = [path.name for path in folders]
    if known is None:
        return names
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(
            f"{folder} has folders that are no class of the model: "
            f"{', '.join(unknown)}. Its classes: {', '.join(known)}."
        )
    return list(known)


def _readable(names, paths, labels, advance):
    """The images that can be decoded, and problems with the others."""
    problems, kept, digests = [], [], []
    with ThreadPoolExecutor() as pool:
        for row, found in enumerate(pool.map(_look, paths)):
            if isinstance(found, ImageError):
                problems.append(Problem(paths[row], str(found)))
            else:
                kept.append(row)
                digests.append(found)
            if advance is not None:
                advance(len(paths), row + 1)
    images = Images(
        names,
        [paths[row] for row in kept],
        labels[kept],
        np.array(digests, dtype="U32"),
    )
    return images, problems


def _look(path):
    """Digest of a file's bytes, or what is wrong with it."""
    try:
        content = path.read_bytes()
        check_image(content)
    except OSError as error:
        return ImageError(error.strerror or str(error))
    except ImageError as error:
        return error
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _without_contradictions(images):
    """Drops pictures that lie in the folders of two classes: one must be wrong."""
    places = defaultdict(list)
    for row, digest in enumerate(images.digests):
        places[digest].append(row)
    problems, wrong = [], []
    for rows in places.values():
        if len(set(images.labels[rows])) > 1:
            wrong += rows
            for row in rows:
                other = next(o for o in rows if images.labels[o] != images.labels[row])
                reason = f"the same picture as {images.paths[other]}, of another class"
                problems.append(Problem(images.paths[row], reason))
    rows = np.setdiff1d(np.arange(len(images)), wrong)
    return images.take(rows.astype(int)), problems


def _without_empty(images):
    counts = images.counts
    names = [name for name, n in zip(images.class_names, counts, strict=True) if n]
    renumbered = np.cumsum(counts > 0) - 1
    return Images(names, images.paths, renumbered[images.labels], images.digests)


def _check_classes(folder, images, problems):
    if len(images.class_names) >= 2:
        return
    found = "no image" if not len(images) else "images of one class only"
    hint = f" The first of them: {problems[0]}" if problems else ""
    raise CommandError(
        f"{folder} has {found} that can be used; two classes are needed, each in a "
        f"folder of its own. {counted(len(problems), 'file')} cannot be used.{hint}"
    )
