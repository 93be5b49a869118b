# SPDX-License-Identifier: Apache-2.0
"""Results in the Test Anything Protocol, one by one as they come."""
SKIPPED = 77


class Tap:
    def __init__(self, count):
        self.number, self.failed = 0, 0
        self._say(f"1..{count}")

    def result(self, test, outcome):
        """A test passed when every machine's part did, or was skipped by some of them."""
        if all(status == 0 for status in outcome.statuses):
            self._line("ok", test.name)
        elif all(status in (0, SKIPPED) for status in outcome.statuses):
            self._line("ok", test.name, "SKIP " + last_line(outcome))
        else:
            self.failure(test, self._failed_lines(test, outcome))
        self.note(f"{test.name}: {outcome.seconds:.1f} s, of a processor {outcome.cpu_seconds:.1f} s")

    def failure(self, test, lines):
        self.failed += 1
        self._line("not ok", test.name)
        for line in lines:
            self.note(line)

    def note(self, text):
        for line in text.splitlines():
            self._say("# " + line)

    def _failed_lines(self, test, outcome):
        told = ", ".join(describe(status, test.seconds) for status in outcome.statuses)
        return outcome.text()[-60:] + [f"{test.name}: {told}"]

    def _line(self, verdict, name, directive=""):
        self.number += 1
        self._say(f"{verdict} {self.number} - {name}" + (f" # {directive}" if directive else ""))

    @staticmethod
    def _say(line):
        print(line, flush=True)


def describe(status, seconds):
    if status is None:
        return "no answer"
    return f"not done after {seconds} s" if status in (124, 137) else f"exit {status}"


def last_line(outcome):
    lines = [line for line in outcome.text() if line.strip()]
    return lines[-1] if lines else "no reason given"
