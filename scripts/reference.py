#!/usr/bin/env python3
"""Writes the generated parts of runtime/docs/reference.md: options, keys and exit codes, as the build knows them.

Usage: reference.py [--check] [BUILD]. BUILD (default: build) holds the trainer. A part stands between the comments
`<!-- begin NAME -->` and `<!-- end NAME -->`. --check writes nothing, shows what would change, and ends with 1 if anything.
"""
import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "runtime", "docs", "reference.md")
STATUS = os.path.join(ROOT, "runtime", "include", "lockstep", "status.def")


def ask(build, option, program="trainer"):
    return subprocess.run([os.path.join(build, program), option], capture_output=True, text=True, check=True).stdout


def cell(text):
    return text.replace("|", "\\|")


def options(build):
    """Table rows of --help: blanks, the option and its operands (in capitals, or section.key=value), what it does."""
    rows = []
    for line in ask(build, "--help").splitlines():
        match = re.match(r" {2,4}(--[a-z-]+(?: (?:[A-Z]+\b|section\.key=value))*) +(\S.*)$", line)
        if match:
            rows.append((match[1], match[2]))
    return "| option | |\n|---|---|\n" + "".join(f"| `{cell(name)}` | {cell(text)} |\n" for name, text in rows)


def launch_options(build):
    """Table rows of launch --help: an option with its value stands between two blanks and at least two more."""
    rows = re.findall(r"^  (-\S+(?: \S+)*?) {2,}(\S.*)$", ask(build, "--help", "launch"), re.M)
    return "| option | |\n|---|---|\n" + "".join(f"| `{cell(name)}` | {cell(text)} |\n" for name, text in rows)


def keys(build):
    """[(section, what it is about, [(key, default, help, kind and range)])] from --help-config."""
    sections = []
    # The page lists what any build has.
    text = re.sub(r" \(not in this build: ([^)]*)\)", r", \1", ask(build, "--help-config"))
    for line in text.splitlines():
        section, key = re.match(r"\[(\w+)\] (.*)", line), re.match(r"  (\w+) =(.*)", line)
        if section:
            sections.append((section[1], section[2], []))
        elif key and sections:
            sections[-1][2].append([key[1], key[2].strip(), []])
        elif re.match(r" {6}\S", line) and sections and sections[-1][2]:
            sections[-1][2][-1][2].append(line.strip())
    return [(name, about, [(key, default, " ".join(lines[:-1]), lines[-1]) for key, default, lines in rows])
            for name, about, rows in sections]


def key_tables(build):
    text = ""
    for section, about, rows in keys(build):
        text += f"### [{section}]: {about}\n\n| key | default | what it is | values |\n|---|---|---|---|\n"
        for key, default, what, kind in rows:
            shown = f"`{cell(default)}`" if default else ""
            text += f"| `{key}` | {shown} | {cell(what)} | {cell(kind)} |\n"
        text += "\n"
    return text.rstrip("\n") + "\n"


def exit_codes():
    """{code: texts} from status.def, the list that the program's own exit codes come from."""
    codes = {}
    with open(STATUS, encoding="utf-8") as file:
        for _, code, text in re.findall(r'^LS_STATUS\((\w+),\s*(\d+),\s*"([^"]+)"\)', file.read(), re.M):
            codes.setdefault(int(code), []).append(text)
    return codes


def exit_table():
    rows = "".join(f"| {code} | {' or '.join(texts)} |\n" for code, texts in sorted(exit_codes().items()))
    rows += "| 1 | `--verify-runs`: the two differ |\n"
    return "| code | |\n|---|---|\n" + rows


def fill(page, name, text):
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1:
        sys.exit(f"{PAGE}: needs one '{begin.strip()}' and one '{end.strip()}'")
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end)[1]


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    arguments = [a for a in arguments if a != "--check"]
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        sys.exit(__doc__)
    build = arguments[0] if arguments else os.path.join(ROOT, "build")
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    new = fill(page, "options", options(build))
    new = fill(new, "launch options", launch_options(build))
    new = fill(new, "keys", key_tables(build))
    new = fill(new, "exit codes", exit_table())
    if check:
        difference = "\n".join(difflib.unified_diff(page.splitlines(), new.splitlines(), "the page", "the build",
                                                    lineterm="", n=0))
        print(difference or "the page is as the build", flush=True)
        sys.exit(1 if difference else 0)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(new)


if __name__ == "__main__":
    main()
