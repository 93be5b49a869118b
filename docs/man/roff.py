# SPDX-License-Identifier: Apache-2.0
"""Text as man pages want it: the man(7) macros, which groff and mandoc both know."""
import re
import textwrap


def escape(text):
    """Plain text, so that nothing in it is a request or an escape."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = text.replace("`", "\\(ga").replace("^", "\\(ha").replace("~", "\\(ti")
    text = "".join(c if ord(c) < 128 else f"\\[u{ord(c):04X}]" for c in text)
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def prose(text):
    """A paragraph: hyphens may be hyphens; `code` and function() are bold, *words* italic."""
    text = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "\0", " ".join(text.split()))
    text = escape(text).replace("\0", "-")
    text = re.sub(r"\\\(ga(.+?)\\\(ga", r"\\fB\1\\fP", text)
    text = re.sub(r"\b(wring_\w+)\(\)", r"\\fB\1\\fP()", text)
    text = re.sub(r"(?<!\S)\*(\w+)\*(?!\w)", r"\\fI\1\\fP", text)
    lines = textwrap.wrap(text, 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join("\\&" + line if line[0] == "." else line for line in lines)


def bold(text):
    return f"\\fB{escape(text)}\\fP"


def italic(text):
    return f"\\fI{escape(text)}\\fP"


def verbatim(text):
    """Lines as they are, indented."""
    return ["", ".RS 4", ".nf", escape(text.strip("\n")).replace("\n\n", "\n\\&\n"), ".fi", ".RE"]


def tagged(tag, text):
    """A paragraph with a tag before it; `tag` is roff already."""
    return [".TP", tag, *([prose(text)] if text else ["\\&"])]


def title(name, section, release, date):
    return [".\\\" SPDX-License-Identifier: Apache-2.0",
            f'.TH {name.upper()} {section} "{date}" "wring {release}" "wring"']


def finish(lines):
    """The page's text: without empty lines, and paragraphs where another macro makes the space."""
    kept = []
    for line in "\n".join(lines).split("\n"):
        if line.startswith((".TP", ".PP", ".SH", ".SS")) and kept and kept[-1] == ".PP":
            kept.pop()
        after_heading = kept and kept[-1].startswith((".SH", ".SS"))
        if line.strip() and not (line == ".PP" and after_heading):
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n"
