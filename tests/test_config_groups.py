"""`[handlers.<group>]`: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.groups import groups_of, handlers_of, number_of, problem_with
from faircall.server.port import geometry_of, policy_of
from faircall.server.settings.changes import merge
from faircall.server.settings.declaration import ConfigError
from faircall.server.settings.environment_table import filled
from faircall.server.settings.load import load_settings
from faircall.server.settings.show import toml_lines

GPU = """
[handlers]
count = 4
[handlers.gpu]
methods = ["vision.*", "ocr"]
env = { CUDA_VISIBLE_DEVICES = "{index}", OMP_NUM_THREADS = 2 }
capacity = 64
"""


class Written:
    """Settings from the text of a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "x.toml"

    def __call__(self, text: str):  # type: ignore[no-untyped-def]
        self.path.write_text(text)
        return load_settings({}, {}, self.path)

    def error(self, text: str) -> str:
        with pytest.raises(ConfigError) as caught:
            self(text)
        return str(caught.value)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_a_group_has_what_is_written_and_the_first_has_the_rest(written: Written) -> None:
    settings = written(GPU)
    first, gpu = groups_of(settings)
    assert (first.name, first.count, gpu.name, gpu.count) == ("default", 4, "gpu", 1)
    assert handlers_of(settings) == 5
    assert filled(gpu.env, index=3, group="gpu") == {
        "CUDA_VISIBLE_DEVICES": "3",
        "OMP_NUM_THREADS": "2",
    }
    methods = ["vision.find", "ocr", "echo"]
    assert [number_of((first, gpu), method) for method in methods] == [1, 1, 0]
    port = settings.ports[8020]
    assert geometry_of(settings, port).group_handlers == (5, 2)
    assert sum(policy_of(settings, port).group_capacities[0]) == 64


def test_a_star_is_the_first_group(written: Written) -> None:
    settings = written('[handlers.gpu]\nmethods=["a"]\n[handlers.cpu]\nmethods=["*"]\ncount=3\n')
    assert [group.name for group in groups_of(settings)] == ["cpu", "gpu"]
    assert handlers_of(settings) == 4


def test_what_is_shown_reads_the_same(written: Written) -> None:
    shown = "\n".join(toml_lines(written(GPU), defaults=False))
    assert groups_of(written(shown)) == groups_of(written(GPU))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[handlers.gpu]\n", "which methods are to run in [handlers.gpu]"),
        ('[handlers.gpu]\nmethods=["a"]\ncount=0\n', "must be at least 1"),
        ('[handlers.gpu]\nmetods=["a"]\n', "did you mean handlers.gpu.methods"),
        ('[handlers.gpu]\nmethods=["a"]\nenv="x"\n', "is not a table of environment variables"),
        ('[handlers.gpu]\nmethods=["a"]\nenv={"a b"="1"}\n', "a b is no name"),
        ('[handlers.gpu]\nmethods=["a"]\nenv={A="{x}"}\n', "only {index} and {group} are known"),
        ('[handlers.gpu]\nmethods=["a"]\nenv={A="{"}\n', "only {index} and {group} are known"),
        ('[handlers.gpu]\nmethods=["a"]\nenv={A=[1]}\n', "A is not text"),
        ('[handlers.gpu]\nmethods=["a"]\n[handlers.x]\nmethods=["a"]\n', '"a" is in handlers.gpu'),
        ('[handlers.gpu]\nmethods=["*","a"]\n', "name no others beside it"),
        ('[handlers]\ncount=2\n[handlers.x]\nmethods=["*"]\n', "leave one of them out"),
        ('[handlers.default]\nmethods=["a"]\n', "unknown key"),
        ('[handlers.gpu]\nmethods=["a"]\ncapacity=2\n', "without room"),
        ("[handlers]\ncuont = 2\n", "did you mean handlers.count"),
    ],
)
def test_what_is_wrong_is_told(written: Written, text: str, said: str) -> None:
    assert said in written.error(text)


def test_patterns_must_match_and_not_overlap(written: Written) -> None:
    groups = groups_of(written(GPU))
    assert problem_with(groups, ["vision.find", "ocr"]) == ""
    said = problem_with(groups, ["vision.find", "echo"])
    assert said == (
        'handlers.gpu.methods: "ocr" matches no method of the service, which has echo, vision.find'
    )
    both = groups_of(written('[handlers.a]\nmethods=["x*"]\n[handlers.b]\nmethods=["*y"]\n'))
    said = problem_with(both, ["xy"])
    assert said == "handlers.a.methods and handlers.b.methods both match xy: it can have one group"


def test_other_groups_need_a_restart(written: Written) -> None:
    running = written(GPU)
    read = written(GPU.replace("64", "128") + '[handlers.more]\nmethods = ["more"]\n')
    settings, changes = merge(running, read, {8020: 1 << 20})
    assert settings.groups == running.groups
    assert {change.key for change in changes.needs_restart} == {
        "handlers.gpu.capacity",
        "handlers.more",
    }
