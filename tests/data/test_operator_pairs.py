"""Pairs of functions: the published setting, true solutions, a cache to trust."""

import os
import pickle
import re
import zipfile

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from keras_swim.core import state_file
from keras_swim.data import operator_pairs
from keras_swim.data.operator_pairs import burgers_pairs, kuramoto_sivashinsky_pairs

TINY = {"count": 4, "points": 32, "steps": 10, "verbose": 0}
KS_TINY = {
    "trajectories": 3,
    "snapshots": 4,
    "step": 0.25,
    "points": 32,
    "transient": 2.0,
    "verbose": 0,
}


def _by_scipy(u0, time, length, linear):
    """`u_t = linear(d/dx) u - u u_x`, with products on twice the points."""
    n = u0.shape[1]
    ik = 2j * np.pi / length * np.arange(n // 2 + 1)

    def side(_, u):
        c = np.fft.rfft(u.reshape(u0.shape))[:, :-1]
        square = np.fft.rfft(np.fft.irfft(2 * c, 2 * n) ** 2)[:, : n // 2] / 2
        slope = linear(ik[:-1]) * c - ik[:-1] / 2 * square
        return np.fft.irfft(slope, n).ravel()

    solved = solve_ivp(
        side, (0, time), u0.ravel(), method="DOP853", rtol=1e-11, atol=1e-12
    )
    return solved.y[:, -1].reshape(u0.shape)


@pytest.fixture
def counted(monkeypatch):
    """How often Burgers is solved."""
    calls = []
    solve = operator_pairs.burgers

    def count(*args, **options):
        calls.append(args)
        return solve(*args, **options)

    monkeypatch.setattr(operator_pairs, "burgers", count)
    return calls


def _only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_starts_are_those_of_the_paper():
    u0, _ = burgers_pairs(3000, time=1e-3, steps=1, cache_dir=False, verbose=0)
    assert u0.shape == (3000, 256) and u0.dtype == np.float64
    c = np.fft.rfft(u0, norm="ortho")
    np.testing.assert_allclose(c[:, 5:], 0, atol=1e-12)
    np.testing.assert_allclose(c[:, 0].imag, 0, atol=1e-12)
    scaled = c[:, :5] * np.arange(1, 6) ** 2
    np.testing.assert_allclose(scaled.real.std(axis=0), 5.0, rtol=0.06)
    np.testing.assert_allclose(scaled[:, 1:].imag.std(axis=0), 5.0, rtol=0.06)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=0.5)
    parts = np.concatenate([scaled.real, scaled[:, 1:].imag], axis=1)
    np.testing.assert_allclose(np.corrcoef(parts.T), np.eye(9), atol=0.1)


def test_burgers_pairs_agree_with_scipy():
    u0, u1 = burgers_pairs(3, cache_dir=False, verbose=0)
    expected = _by_scipy(u0, 1.0, 2 * np.pi, lambda ik: 0.1 * ik**2)
    assert np.abs(u1 - u0).max() > 0.1
    np.testing.assert_allclose(u1, expected, rtol=0, atol=1e-8)


def test_grids_sample_the_same_functions():
    fine = burgers_pairs(3, points=128, cache_dir=False, verbose=0)
    coarse = burgers_pairs(3, points=64, cache_dir=False, verbose=0)
    np.testing.assert_allclose(coarse[0], fine[0][:, ::2], atol=1e-14)
    np.testing.assert_allclose(coarse[1], fine[1][:, ::2], atol=1e-8)


def test_seed_and_count():
    few = burgers_pairs(**TINY, cache_dir=False)
    many = burgers_pairs(**{**TINY, "count": 6}, cache_dir=False)
    other = burgers_pairs(**TINY, seed=1, cache_dir=False)
    for a, b, c in zip(few, many, other, strict=True):
        np.testing.assert_allclose(a, b[:4], rtol=0, atol=1e-14)
        assert np.abs(a - c).max() > 0.1


def test_kuramoto_sivashinsky_is_on_the_attractor():
    u0, u1 = kuramoto_sivashinsky_pairs(
        6, snapshots=5, step=2.0, points=32, cache_dir=False, verbose=0
    )
    assert u0.shape == u1.shape == (6, 5, 32)
    np.testing.assert_allclose(u0.mean(axis=2), 0, atol=1e-12)
    # Starts are 20 times smaller; on the attractor each state is of order 1.
    size = u0.std(axis=2)
    assert size.min() > 0.6 and size.max() < 2.0
    close = np.corrcoef(u0[:, 0]) - np.eye(6)
    assert np.abs(close).max() < 0.99
    np.testing.assert_array_equal(u0[:, 1:], u1[:, :-1])
    expected = _by_scipy(u0[:2, 3], 2.0, 22.0, lambda ik: -(ik**2) - ik**4)
    np.testing.assert_allclose(u1[:2, 3], expected, rtol=0, atol=1e-7)


def test_kuramoto_sivashinsky_arrays_are_apart(tmp_path):
    options = {**KS_TINY, "transient": 0}
    u0, u1 = kuramoto_sivashinsky_pairs(**options, cache_dir=tmp_path)
    kept = u1.copy()
    u0[:] = 0
    np.testing.assert_array_equal(u1, kept)
    again = kuramoto_sivashinsky_pairs(**options, cache_dir=tmp_path)
    np.testing.assert_array_equal(again[1], kept)
    # Without a transient, the small start is the first state.
    assert 0 < again[0][:, 0].std() < 0.4


def test_cache_is_used_again(tmp_path, counted):
    first = burgers_pairs(**TINY, cache_dir=tmp_path / "new" / "folder")
    same = {**TINY, "count": np.int64(4), "time": 1, "verbose": 1}
    second = burgers_pairs(**same, cache_dir=str(tmp_path / "new" / "folder"))
    assert len(counted) == 1
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert b.flags.writeable
    with np.load(_only_file(tmp_path / "new" / "folder"), allow_pickle=False) as file:
        np.testing.assert_array_equal(file["u1"], first[1])


@pytest.mark.parametrize(
    "change",
    [
        {"count": 5},
        {"points": 34},
        {"seed": 1},
        {"viscosity": 0.2},
        {"time": 0.9},
        {"modes": 4},
        {"deviation": 4.0},
        {"steps": 12},
    ],
)
def test_other_arguments_have_another_file(tmp_path, change, counted):
    burgers_pairs(**TINY, cache_dir=tmp_path)
    burgers_pairs(**{**TINY, **change}, cache_dir=tmp_path)
    assert len(counted) == len(list(tmp_path.iterdir())) == 2


def test_kuramoto_sivashinsky_cache(tmp_path, monkeypatch):
    first = kuramoto_sivashinsky_pairs(**KS_TINY, cache_dir=tmp_path)
    for name, value in (("step", 0.3), ("length", 20.0), ("seed", 2), ("snapshots", 5)):
        kuramoto_sivashinsky_pairs(**{**KS_TINY, name: value}, cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    monkeypatch.setattr(operator_pairs, "kuramoto_sivashinsky", None)
    second = kuramoto_sivashinsky_pairs(**KS_TINY, cache_dir=tmp_path)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_new_format_has_another_file(tmp_path, monkeypatch, counted):
    burgers_pairs(**TINY, cache_dir=tmp_path)
    monkeypatch.setattr(operator_pairs, "_FORMAT", operator_pairs._FORMAT + 1)
    burgers_pairs(**TINY, cache_dir=tmp_path)
    assert len(counted) == len(list(tmp_path.iterdir())) == 2


def test_default_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_SWIM_CACHE", str(tmp_path / "named"))
    burgers_pairs(**TINY)
    assert _only_file(tmp_path / "named").suffix == ".npz"
    monkeypatch.delenv("KERAS_SWIM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    burgers_pairs(**TINY)
    assert _only_file(tmp_path / "home" / ".cache" / "keras_swim_data").is_file()


def test_no_cache_writes_nothing(tmp_path, monkeypatch, counted):
    monkeypatch.setenv("KERAS_SWIM_CACHE", str(tmp_path))
    burgers_pairs(**TINY, cache_dir=False)
    burgers_pairs(**TINY, cache_dir=False)
    assert len(counted) == 2 and not list(tmp_path.iterdir())


def _damage_empty(path):
    path.write_bytes(b"")


def _damage_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _damage_text(path):
    path.write_text("not an archive")


def _damage_array(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)


def _damage_missing(path):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name != "u1"}
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _damage_settings(path):
    with np.load(path) as file:
        arrays = {**file, "settings": "{}"}
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize(
    "damage",
    [
        _damage_empty,
        _damage_half,
        _damage_text,
        _damage_array,
        _damage_missing,
        _damage_settings,
    ],
)
def test_damaged_cache_is_made_again(tmp_path, damage, counted):
    true = burgers_pairs(**TINY, cache_dir=tmp_path)
    path = _only_file(tmp_path)
    damage(path)
    with pytest.warns(UserWarning, match=rf"{path.name} cannot be read and is made"):
        again = burgers_pairs(**TINY, cache_dir=tmp_path)
    assert len(counted) == 2
    third = burgers_pairs(**TINY, cache_dir=tmp_path)
    assert len(counted) == 2 and _only_file(tmp_path) == path
    for a, b, c in zip(true, again, third, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.filterwarnings("ignore:.*cannot be read:UserWarning")
def test_no_single_wrong_byte_gives_wrong_arrays(tmp_path, monkeypatch):
    true = burgers_pairs(**TINY, cache_dir=tmp_path)
    path = _only_file(tmp_path)
    whole = path.read_bytes()
    made = dict(zip(("u0", "u1"), true, strict=True))
    monkeypatch.setattr(operator_pairs, "burgers", lambda *a, **k: made["u1"])
    # The headers of the archive, of its arrays, its directory, and some values.
    with zipfile.ZipFile(path) as archive:
        starts = [part.header_offset for part in archive.infolist()]
        directory = archive.start_dir
    places = [start + n for start in starts for n in range(0, 128, 5)]
    places += range(directory, len(whole), 5)
    places += range(0, len(whole), 211)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 0x11
        path.write_bytes(changed)
        got = burgers_pairs(**TINY, cache_dir=tmp_path)
        for a, b in zip(got, true, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"byte {place}")


class _Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickles_are_never_opened(tmp_path):
    folder, trap = tmp_path / "cache", tmp_path / "sprung"
    burgers_pairs(**TINY, cache_dir=folder)
    path = _only_file(folder)
    with np.load(path) as file:
        arrays = {**file, "u1": np.array([_Trap(trap)], dtype=object)}
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.warns(UserWarning, match="cannot be read"):
        _, u1 = burgers_pairs(**TINY, cache_dir=folder)
    assert u1.shape == (4, 32) and not trap.exists()
    pickle.loads(pickle.dumps(_Trap(trap)))
    assert trap.exists()


def test_file_appears_when_it_is_complete(tmp_path, monkeypatch):
    seen = []
    replace = os.replace

    def watched(source, target):
        assert os.path.dirname(source) == os.path.dirname(target) == str(tmp_path)
        assert not os.path.exists(target)
        with np.load(source, allow_pickle=False) as file:
            seen.append(file["u1"].shape)
        replace(source, target)

    monkeypatch.setattr(state_file.os, "replace", watched)
    burgers_pairs(**TINY, cache_dir=tmp_path)
    assert seen == [(4, 32)]
    assert _only_file(tmp_path).suffix == ".npz"


def test_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(state_file.np, "savez", interrupt)
        with pytest.raises(KeyboardInterrupt):
            burgers_pairs(**TINY, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_unwritable_folder_costs_only_the_cache(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="could not be kept.*`cache_dir`"):
        u0, _ = burgers_pairs(**TINY, cache_dir=tmp_path / "file" / "folder")
    np.testing.assert_array_equal(u0, burgers_pairs(**TINY, cache_dir=False)[0])


def test_progress_and_printing(capsys):
    told = []
    options = {**KS_TINY, "verbose": 1, "progress": lambda *now: told.append(now)}
    kuramoto_sivashinsky_pairs(**options, cache_dir=False)
    # 40 steps to the attractor, then 4 times 25, of 3 trajectories.
    assert {total for _, total in told} == {420}
    done = [now for now, _ in told]
    assert done == sorted(set(done)) and done[-1] == 420
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"Kuramoto-Sivashinsky: 100 % in \d+ s", last)
    burgers_pairs(**TINY, cache_dir=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (burgers_pairs, {"count": 0}, "`count`.*at least 1.*0"),
        (burgers_pairs, {"count": 2.5}, "`count`.*whole"),
        (burgers_pairs, {"points": 33}, "`points` must be even.*33.*34"),
        (burgers_pairs, {"points": 8}, "`points`.*at least 16"),
        (burgers_pairs, {"seed": None}, "`seed`.*whole number.*None"),
        (burgers_pairs, {"modes": 20, "points": 32}, "half of `points`.*points=40"),
        (burgers_pairs, {"viscosity": 0}, "`viscosity` must be positive"),
        (burgers_pairs, {"time": -1.0}, "`time` must be positive"),
        (burgers_pairs, {"steps": 0}, "`steps`"),
        (kuramoto_sivashinsky_pairs, {"step": 0}, "`step` must be positive"),
        (kuramoto_sivashinsky_pairs, {"transient": -1}, "`transient` at least 0"),
        (kuramoto_sivashinsky_pairs, {"snapshots": 0}, "`snapshots`"),
        (kuramoto_sivashinsky_pairs, {"length": 0}, "`length` must be positive"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, make, options, message):
    small = TINY if make is burgers_pairs else KS_TINY
    with pytest.raises(ValueError, match=message):
        make(**{**small, **options}, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())
