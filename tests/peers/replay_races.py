# SPDX-License-Identifier: Apache-2.0
"""WRING_PLAN=auto beside float32 and bf16: one job each, in which iterations of all take turns."""
import dataclasses
import statistics

import replay_cases as cases
from peer_sides import Failed
from replay_bench import Bench, say

WORST = 1.05  # times what the best of fp32 and bf16 takes
SIDES = {"none": "fp32", "bf16": "bf16"}  # that auto runs beside, as its codecs and to be read
CLEAR = 1.5  # times as long: who takes that is not the best, and need not run again
JOBS = 5  # where one's interval reaches beyond WORST: sides that do the same differ from job to job
TURNS = {"shm": 31, "tcp": 31, "10g": 21, "1g": 7}  # by how long they take and how much they differ
FIRST_US = {"1g": 1e7}  # guesses at a turn that nobody predicted
USUAL_US = 1e6


@dataclasses.dataclass
class Race:
    """A case's jobs, in each of which the same sides took turns."""
    case: cases.Case
    jobs: list  # lines of the folder

    def times(self, codec):
        """@return medians of one side, in us; of a job that left it out, nothing"""
        return [side["measured_us"] for job in self.jobs for side in job["beside"]
                if side["codec"] == codec]

    @property
    def best(self):
        return min((codec for codec in SIDES if self.times(codec)),
                   key=lambda codec: statistics.median(self.times(codec)))

    @property
    def comparisons(self):
        """Beside the best, of each job: ratio, low, high, confidence."""
        return sorted((side for job in self.jobs for side in job["beside"]
                       if side["codec"] == self.best), key=lambda side: side["ratio"])

    @property
    def ratio(self):
        """Of the job in the middle; of two there, of the larger one."""
        return self.comparisons[len(self.comparisons) // 2]["ratio"]

    @property
    def interval(self):
        """Of one job by its turns; of several from the least to the most: what jobs usually come to is
        outside of that only if each came out on the same side of it. @return low, high, confidence"""
        first, *more = self.comparisons
        if not more:
            return first["low"], first["high"], first["confidence"]
        return first["ratio"], more[-1]["ratio"], 1 - 0.5 ** len(more)

    @property
    def in_doubt(self):
        """Has a job had turns that were further off than the bar?"""
        return any(side["high"] > WORST for side in self.comparisons)

    def as_json(self):
        return {**dataclasses.asdict(self.case), "best": SIDES[self.best],
                "auto_us": statistics.median(job["measured_us"] for job in self.jobs),
                **{f"{name}_us": statistics.median(self.times(codec)) if self.times(codec) else None
                   for codec, name in SIDES.items()},
                "ratio": self.ratio, **dict(zip(("low", "high", "confidence"), self.interval)),
                "jobs": len(self.jobs),
                "turns": self.jobs[0]["timed"], "chosen": [job["chosen"] for job in self.jobs]}


def judge(races):
    worst = max(races, key=lambda race: race.ratio)
    return {"cases": len(races), "median": statistics.median(race.ratio for race in races),
            "worst": worst.ratio, "worst_at": worst.case.title,
            "within": sum(race.ratio <= WORST for race in races), "met": worst.ratio <= WORST}


def show(races):
    print("| setting | ranks | model | may take | fp32 ms | bf16 ms | auto ms | of the best "
          "| interval | turns | chose |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for race in races:
        case, row = race.case, race.as_json()
        scale = "" if case.scale == 1 else f" /{1 / case.scale:g}"
        times = " | ".join(cases.ms(row[f"{name}_us"]) if row[f"{name}_us"] else ""
                           for name in (*SIDES.values(), "auto"))
        turns = f"{row['jobs']} × {row['turns']}" if row["jobs"] > 1 else row["turns"]
        print(f"| {case.setting} | {case.ranks} | {case.model}{scale} | {case.codec} | {times} "
              f"| {race.ratio:.3f} | {row['low']:.3f} to {row['high']:.3f} | {turns} "
              f"| {', '.join(dict.fromkeys(row['chosen']))} |")
    got = judge(races)
    print(f"\n{got['within']} of {got['cases']} cases take up to {WORST} times what the best of "
          f"fp32 and bf16 does; at worst {got['worst']:.3f} ({got['worst_at']}): "
          f"{cases.verdict(got['met'])}.")


class Races(Bench):
    def runs_of(self, case):
        return self.folder.find(**self.same(case, kind="race", codec=case.codec))

    def wanted(self, case):
        jobs = self.runs_of(case)
        doubt = jobs and Race(case, jobs).in_doubt
        return max(self.arguments.rounds, JOBS) if doubt else self.arguments.rounds

    def beside(self, case):
        """@return codecs of the sides that may still be the best, by this model's jobs so far"""
        known = self.folder.find(kind="race", setting=case.setting, ranks=case.ranks,
                                 model=case.model, scale=case.scale)
        times = {codec: Race(case, known).times(codec) for codec in SIDES}
        if not all(times.values()):
            return list(SIDES)
        least = min(map(statistics.median, times.values()))
        return [codec for codec in SIDES if statistics.median(times[codec]) <= CLEAR * least]

    def run_round(self, run, some, _):
        """WRING_PLAN=auto measures by itself, once: what it learns stays in the folder."""
        cache = self.folder.path.resolve() / f"cache-{some[0].setting}-{some[0].ranks}"
        cache.mkdir(exist_ok=True)
        for case in some:
            words = ["--plan", "auto", "-c", case.codec, "--beside", ",".join(self.beside(case))]
            try:
                self.replay(run, case, words, self.arguments.iterations or TURNS[case.setting],
                            FIRST_US.get(case.setting, USUAL_US),
                            self.same(case, kind="race", codec=case.codec), {},
                            WRING_CACHE=str(cache))
            except Failed as error:
                self.fail(case.title, error)
                continue
            race = Race(case, self.runs_of(case)[-1:])
            say(f"{case.title}: {cases.ms(race.jobs[0]['measured_us'])} ms, {race.ratio:.3f} of "
                f"{SIDES[race.best]}: {race.jobs[0]['chosen']}")

    def show(self):
        races = [Race(case, jobs) for case in self.arguments.cases if (jobs := self.runs_of(case))]
        print(f"{len(races)} of {len(self.arguments.cases)} cases; compute: "
              f"{self.arguments.compute}\n")
        if not races:
            return [], {}
        show(races)
        return [race.as_json() for race in races], judge(races)
