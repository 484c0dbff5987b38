"""Keep the translated catalogues in step with the English pages, and say where they are not.

    python docs/_tools/po.py update _build/gettext locale zh_CN
    python docs/_tools/po.py check _build/gettext locale zh_CN

``update`` adds new messages and removes old ones. It never guesses, so an edited sentence must be
translated again. ``check`` fails unless every message is translated, with the terms of the site, and
marked up as in English.
The messages are those of Sphinx's ``gettext`` builder.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

#: Without dates, so that a file changes only when its messages do.
HEADER = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""

#: The markup that a translation must keep: ``code``, :role:`target`, `name` or `text <target>`_,
#: |name|, [1]_.
#: Glued to a letter, or to a Chinese character, it is not markup.
MARKUP = re.compile(
    r"(?<![\w`:])(?::(?P<role>[\w:-]+):)?"
    r"(?:``(?P<literal>.+?)``|`(?P<content>[^`]+)`(?P<link>__?)?)(?![\w`])"
    r"|(?<!\w)\|(?P<substitution>[^\s|][^|\n]*)\|(?!\w)"
    r"|(?<!\w)\[(?P<footnote>#?\w*)\]_(?!\w)"
    r"|%\((?P<variable>\w+)\)s"
)
#: Terms that were translated in two ways, or wrongly: what must not be in a translation, what to write,
#: and in which English messages it may be, for example the driver of a GPU.
TERMS = (
    (r"驱动程序", "驱动进程", r"GPU|CUDA|NVML|NVIDIA|descriptors"),
    (r"笔记本(?!电脑)", "notebook", None),
    (r"冻结", "锁定（finalize）", None),
    (r"资源束", "资源包", None),
    (r"解答", "答案", None),
    (r"上报", "报告", None),
    (r"卷积核", "滤波器", None),
    (r"杀[死掉]", "终止", None),
    (r"死亡", "失效", None),
    (r"结点", "节点", None),
    (r"世界 ?rank", "全局 rank", None),
    (r"回溯(?!信息)", "回溯信息", None),
    (r"手写强化学习", "从零实现强化学习", None),
    (r"数据框", "DataFrame", None),
    (r"仪表板", "仪表盘", None),
    (r"您", "你", None),
    (r"溢写", "溢出", None),
    (r"故障排除", "故障排查", None),
    (r"附加(?:组件|依赖)", "附加项", None),
    (r"GPU 内存", "显存", None),
    (r"Dask (?:的 ?)?工作进程", "Dask worker: 工作进程 are those of Train", None),
    (r"(?:actor|工作进程) ?失效", "终止: a node is 失效, a process is 终止", None),
    (r"[，。；：！？、] +(?=[`*:\w])", "no blank after a full-width mark", None),
    (r"[，。；：！？、]\*\* +(?=\S)", "no blank after a full-width mark: **...**\\ ", None),
)
#: The words of a link are translated; where it leads to is not.
TARGET = re.compile(r"<([^<>]+)>\s*$")


def messages(folder: Path) -> dict[Path, Path]:
    """Return the catalogues of messages under ``folder``: their names without suffix, and files."""
    return {
        file.relative_to(folder).with_suffix(""): file
        for suffix in (".pot", ".po")
        for file in sorted(folder.rglob(f"*{suffix}"))
    }


def read(file: Path) -> Catalog:
    """Return what is in a catalogue's file."""
    with file.open("rb") as stream:
        return read_po(stream, abort_invalid=True)


def templates(folder: Path) -> dict[Path, Catalog]:
    """Return the English messages of every page that has some."""
    catalogues = {name: read(file) for name, file in messages(folder).items()}
    return {name: catalogue for name, catalogue in catalogues.items() if len(catalogue)}


def update(pots: Path, folder: Path, language: str) -> None:
    """Bring the catalogues of a language in step with the English ones."""
    for name, template in templates(pots).items():
        file = (folder / name).with_suffix(".po")
        catalogue = read(file) if file.exists() else Catalog()
        catalogue.update(template, no_fuzzy_matching=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            stream.write(HEADER.format(language=language).encode())
            write_po(
                stream,
                catalogue,
                width=100,
                omit_header=True,
                ignore_obsolete=True,
                no_location=True,
            )


def markup(text: str) -> Counter[str]:
    """Return what of a message must be the same in a translation, and how often it is there."""
    found: Counter[str] = Counter()
    for match in MARKUP.finditer(text):
        content = match["content"] and TARGET.search(match["content"])
        found[match[0].replace(match["content"], content[0]) if content else match[0]] += 1
    return found


def problems(name: Path, template: Catalog, catalogue: Catalog | None) -> Iterator[str]:
    """Yield what is wrong with one catalogue."""
    if catalogue is None:
        yield f"MISSING {name}: there is no .po file"
        return
    for message in template:
        if not message.id:
            continue
        entry = catalogue.get(message.id)
        if entry is None or not entry.string:
            yield f"MISSING {name}: {message.id!r} is not translated"
        elif entry.fuzzy:
            yield f"FUZZY {name}: {message.id!r} is a guess"
        elif (expected := markup(str(message.id))) != (found := markup(str(entry.string))):
            lost, added = expected - found, found - expected
            yield f"MARKUP {name}: {message.id!r} loses {[*lost]} and adds {[*added]}"
        else:
            yield from wrong_terms(name, str(message.id), str(entry.string))
    for entry in catalogue:
        if entry.id and entry.id not in template:
            yield f"STALE {name}: {entry.id!r} is no longer in the English page"


def wrong_terms(name: Path, english: str, chinese: str) -> Iterator[str]:
    """Yield the terms of a translation that the site translates in another way."""
    for pattern, right, but in TERMS:
        found = re.search(pattern, chinese)
        if found and not (but and re.search(but, english)):
            yield f"TERM {name}: {found[0]!r}, not {right!r}, in {chinese[:80]!r}"


def check(pots: Path, folder: Path) -> list[str]:
    """Return what is wrong with the catalogues of a language."""
    english = templates(pots)
    files = messages(folder)
    found: list[str] = []
    for name, template in english.items():
        catalogue = read(files[name]) if name in files else None
        found += problems(name, template, catalogue)
    found += [
        f"ORPHAN {name}: there is no such English page" for name in files if name not in english
    ]
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("update", "check"))
    parser.add_argument("pots", type=Path, help="what Sphinx's gettext builder has written")
    parser.add_argument("locale", type=Path)
    parser.add_argument("language")
    given = parser.parse_args()
    folder = given.locale / given.language / "LC_MESSAGES"
    if not any(given.pots.rglob("*.pot")):
        sys.exit(f"{given.pots} has no messages; run Sphinx's gettext builder first.")
    if given.action == "update":
        update(given.pots, folder, given.language)
        return
    found = check(given.pots, folder)
    for line in found:
        print(line)
    if found:
        sys.exit(f"{len(found)} problems with the translation into {given.language}")


if __name__ == "__main__":
    main()
