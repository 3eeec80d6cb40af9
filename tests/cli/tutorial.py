# SPDX-License-Identifier: Apache-2.0
"""What docs/tutorial.md promises: each program is written to the file that its first line names, each command of a
`console` block is run, and what it prints is what the document says.

usage: tutorial.py check|update TUTORIAL       in an empty directory, with `mainstem` on the PATH

`update` puts what the commands print into the document. Times, which are estimates, and hashes of bits, which depend on
the C library, are not compared, of fractions two digits are, and a long line may be folded."""
import re
import subprocess
import sys
import textwrap

WIDTH = 100


def blocks(text):
    """Pairs of what stands behind the fence and the block's lines; the document's other lines as (None, [line])."""
    lines = iter(text.splitlines())
    for line in lines:
        if not line.startswith("```"):
            yield None, [line]
            continue
        body = []
        for inner in lines:
            if inner == "```":
                break
            body.append(inner)
        else:
            sys.exit(f"tutorial: a block has no end: {line}")
        yield line[3:], body


def write_file(body):
    module, script = re.fullmatch(r"module (\w+);", body[0]), re.fullmatch(r"# (\w+\.py)", body[0])
    if not module and not script:
        sys.exit(f"tutorial: the first line names no file: {body[0]}")
    with open(script[1] if script else module[1] + ".stem", "w", encoding="utf-8") as f:
        f.write("\n".join(body) + "\n")


def commands(body):
    """[command, lines it prints] of each `$ ` line, with those that go on behind a backslash."""
    found = []
    for line in body:
        if found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], []])
        elif not found:
            sys.exit(f"tutorial: before the first command: {line}")
        else:
            found[-1][1].append(line)
    return found


def run(command):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", timeout=300, check=False)
    if done.returncode and "error: " not in done.stdout:
        sys.exit(f"tutorial: {command}: exit {done.returncode} without a word why: {done.stdout}")
    return done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []


def comparable(lines):
    text = re.sub(r"\bbits [0-9a-f]{16}\b", "bits HASH", " ".join(lines))
    text = re.sub(r"-?\b[0-9]\.[0-9]{2,}\b(?! [uK])", lambda m: f"{float(m[0]):.2g}", text)
    text = re.sub(r"\b[0-9]+\.[0-9]+ us\b", "TIME", text)
    return " ".join(text.split())


def fold(lines):
    out = []
    for line in lines:
        out += textwrap.wrap(line, WIDTH, subsequent_indent=" " * 8, break_long_words=False,
                             drop_whitespace=False) if len(line) > WIDTH else [line]
    return [line.rstrip() for line in out]


def main():
    what, path = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        text = f.read()
    out, failed, n_files, n_commands = [], 0, 0, 0
    for kind, body in blocks(text):
        if kind is None:
            out += body
            continue
        if kind in ("stem", "stem wrong", "python"):
            write_file(body)
            n_files += 1
        elif kind == "console":
            fresh = []
            for command, said in commands(body):
                got = run(command)
                n_commands += 1
                fresh += ("$ " + command).split("\n") + fold(got)
                if what == "check" and comparable(got) != comparable(said):
                    failed += 1
                    print(f"tutorial: {command}\n--- it prints\n" + "\n".join(got) +
                          "\n--- the document says\n" + "\n".join(said))
            body = fresh if what == "update" else body
        out += ["```" + kind, *body, "```"]
    for number, line in enumerate(text.splitlines(), 1):
        if what == "check" and len(line) > WIDTH:
            failed += 1
            print(f"tutorial: line {number} has {len(line)} columns, more than {WIDTH}")
    if what == "update":
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(out) + "\n")
    if what == "check":
        print(f"tutorial: {n_files} files, {n_commands} commands, {failed} failed")
    sys.exit(failed != 0 or n_files < 6 or n_commands < 15)


main()
