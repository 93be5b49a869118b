# SPDX-License-Identifier: Apache-2.0
"""The cases of replay_matrix.py, and what its runs say about them: errors, spreads and bars."""
import dataclasses
import math
import operator
import statistics

SETTINGS = {"shm": (2,), "tcp": (2,), "1g": (2, 4), "10g": (2, 4)}  # numbers of ranks
ON_LINKS = ("1g", "10g")
MODELS = "vgg16:0.125,ugatit:0.125,resnet101,bert-base,gpt2,lstm"
CODECS = "none,bf16,onebit,topk:ratio=0.01"
USUAL = 0.05  # an error up to here, or up to the case's spread, is none
LARGE = 0.15  # nine cases of ten are below


@dataclasses.dataclass(frozen=True)
class Case:
    setting: str
    ranks: int
    model: str
    scale: float
    codec: str

    @property
    def title(self):
        scale = "" if self.scale == 1 else f"/{1 / self.scale:g}"
        return f"{self.setting} x{self.ranks} {self.model}{scale} {self.codec}"


def read_models(text):
    """@return (model, scale) of each; raises ValueError"""
    found = []
    for word in text.split(","):
        model, _, scale = word.partition(":")
        number = float(scale) if scale else 1.0
        if not model or not 0 < number <= 1:
            raise ValueError(f"'{word}' is not MODEL or MODEL:SCALE with a scale up to 1")
        found.append((model, number))
    return found


def list_cases(settings, ranks, models, codecs):
    return [Case(setting, count, model, scale, codec)
            for setting in settings for count in SETTINGS[setting] if count in ranks
            for model, scale in models for codec in codecs]


def may_take(codecs):
    """What WRING_PLAN=auto may take in the cases of these codecs: what it is compared with, too."""
    return list(dict.fromkeys("bf16" if codec in ("none", "bf16") else f"bf16,{codec}"
                              for codec in codecs))


def quantile(values, part):
    """Of the values themselves: the least that so many are not above."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def spread_of(values):
    """From run to run: the farthest two, of the median."""
    return (max(values) - min(values)) / statistics.median(values)


@dataclasses.dataclass
class Outcome:
    """A case that was planned, and what was predicted for each run of it and measured, in us."""
    case: Case
    backward: float
    groups: int  # in the last run
    predicted: list
    measured: list
    within: list  # each run's spread between its iterations

    @property
    def median(self):
        return statistics.median(self.measured)

    @property
    def error(self):
        """The median of the runs'."""
        return statistics.median(map(operator.truediv, self.predicted, self.measured)) - 1

    @property
    def spread(self):
        return spread_of(self.measured)

    @property
    def allowed(self):
        return max(USUAL, self.spread)

    def as_json(self):
        return {**dataclasses.asdict(self.case), "groups": self.groups,
                "backward_us": self.backward,
                "predicted_us": statistics.median(self.predicted), "predictions_us": self.predicted,
                "measured_us": self.median, "runs_us": self.measured, "error": self.error,
                "spread": self.spread, "spread_within": statistics.median(self.within)}


def judge(outcomes):
    """The bars of predictions, over all these cases."""
    errors = [abs(outcome.error) for outcome in outcomes]
    reach = [abs(outcome.error) / outcome.allowed for outcome in outcomes]
    worst = max(outcomes, key=lambda outcome: abs(outcome.error))
    return {"cases": len(outcomes), "median": statistics.median(errors),
            "median_of_allowed": statistics.median(reach),
            "within": sum(one <= 1 for one in reach), "p90": quantile(errors, 0.9),
            "worst": worst.error, "worst_at": worst.case.title,
            "median_met": statistics.median(reach) <= 1, "p90_met": quantile(errors, 0.9) <= LARGE}


# ---- as text ----

def ms(us):
    return f"{us / 1e3:.2f}" if us < 1e5 else f"{us / 1e3:.0f}"


def percent(part):
    return f"{100 * part:.1f}"


def show_outcomes(outcomes):
    print("| setting | ranks | model | codec | groups | backward ms | predicted ms | measured ms "
          "| error % | spread % | runs | |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for one in outcomes:
        case = one.case
        scale = "" if case.scale == 1 else f" /{1 / case.scale:g}"
        mark = "" if abs(one.error) <= one.allowed else "off" if abs(one.error) <= LARGE else "far"
        print(f"| {case.setting} | {case.ranks} | {case.model}{scale} | {case.codec} "
              f"| {one.groups} | {ms(one.backward)} | {ms(statistics.median(one.predicted))} "
              f"| {ms(one.median)} "
              f"| {100 * one.error:+.1f} | {percent(one.spread)} | {len(one.measured)} | {mark} |")


def verdict(met):
    return "met" if met else "**missed**"


def show_judgement(outcomes):
    """A line for each setting and codec, and the bars over everything."""
    print("\n| cases | number | median error % | within 5 % or the spread | 90th percentile % "
          "| worst % | at |\n|---|---|---|---|---|---|---|")
    parts = {f"{one.case.setting} x{one.case.ranks}": [] for one in outcomes}
    parts.update({one.case.codec: [] for one in outcomes})
    for one in outcomes:
        parts[f"{one.case.setting} x{one.case.ranks}"].append(one)
        parts[one.case.codec].append(one)
    for name, some in {**parts, "all": outcomes}.items():
        got = judge(some)
        print(f"| {name} | {got['cases']} | {percent(got['median'])} | {got['within']} "
              f"| {percent(got['p90'])} | {percent(got['worst'])} | {got['worst_at']} |")
    got = judge(outcomes)
    print(f"\nMedian error, of the greater of {100 * USUAL:.0f} % and the case's own spread: "
          f"{got['median_of_allowed']:.2f} ≤ 1: {verdict(got['median_met'])}. "
          f"90th percentile: {percent(got['p90'])} % ≤ {100 * LARGE:.0f} %: "
          f"{verdict(got['p90_met'])}.")
