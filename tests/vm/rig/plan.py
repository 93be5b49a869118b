# SPDX-License-Identifier: Apache-2.0
"""plan.toml: which tests run in which machines."""
import dataclasses
import pathlib
import tomllib

PLAN = pathlib.Path(__file__).resolve().parent.parent / "plan.toml"


class BadPlan(Exception):
    pass


@dataclasses.dataclass
class Test:
    name: str
    run: str  # shell, after guest/lib.sh and cases.sh, in every machine
    seconds: int = 60


@dataclasses.dataclass
class Batch:
    name: str
    about: str
    seconds: int  # for all of it, boot included
    machines: int = 1
    rails: int = 1
    mtu: int = 4300
    cpus: int = 2
    tests: list = dataclasses.field(default_factory=list)


def make(kind, values, what):
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = set(values) - known
    if unknown:
        raise BadPlan(f"{what}: unknown {', '.join(sorted(unknown))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise BadPlan(f"{what}: {error}") from None


def read(path=PLAN):
    """@return {name: Batch}"""
    batches = {}
    for name, values in tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8")).items():
        tests = [make(Test, test, f"a test of {name}") for test in values.pop("test", [])]
        names = [test.name for test in tests]
        if len(set(names)) != len(names):
            raise BadPlan(f"{name}: two tests have one name")
        batches[name] = make(Batch, {"name": name, "tests": tests, **values}, name)
    return batches
