"""A client certificate's subject as the name of a principal: Kafka's `ssl.principal.mapping.rules` (KIP-371). Pure.

Rules are separated by commas, and the first that matches counts: `DEFAULT`, the subject itself, or
`RULE:pattern/replacement/` with `L` or `U` behind it for lower or upper case. A pattern is a regular expression that
the whole subject has to match; in a pattern and a replacement `\\/` is a slash. `$1` in a replacement is what a group
matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

DEFAULT: Final = "DEFAULT"
LONGEST_SUBJECT: Final = 1_024
"""Characters; as many as a principal's name has at the most."""

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?)|)\s*(?:,|$)")
_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
_TOKEN: Final = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$(\d+)|(\$)", re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


class NoMatchingRule(ValueError):
    """No rule applies to this subject: its owner is nobody here."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._replaced, subject))

    def _replaced(self, found: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)


class PrincipalMapping:
    """The rules, in order.

    Raises:
        ValueError: one line that names a rule of no use.
    """

    def __init__(self, rules: str = DEFAULT) -> None:
        self._rules = _parsed(rules)

    def name(self, subject: str) -> str:
        """The principal's name. Raises NoMatchingRule.

        What a backtracking pattern costs grows with the subject, which whoever holds the certificate has chosen.
        """
        if len(subject) > LONGEST_SUBJECT:
            raise NoMatchingRule(
                f"a certificate's subject has {LONGEST_SUBJECT} characters at most, not {len(subject)}"
            )
        for rule in self._rules:
            found = subject if rule is None else rule.apply(subject)
            if found is not None:
                return found
        raise NoMatchingRule(f"no rule applies to the certificate {subject}")


def _parsed(text: str) -> list[_Rule | None]:
    """None stands for DEFAULT. Rules without anything in them are left out."""
    rest, rules = text.strip(), list[_Rule | None]()
    while rest:
        found = _RULE.match(rest)
        if found is None:
            raise ValueError(f"{rest!r} does not begin with DEFAULT or RULE:pattern/replacement/[LU]")
        if found[1]:
            rules.append(None)
        elif found[2] is not None:
            rules.append(_rule(found[2], found[3], found[4]))
        rest = rest[found.end() :]
    return rules


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        # Java's \w, \d, \s and \b are ASCII, and it writes named groups without a P.
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except re.error as exc:
        raise ValueError(f"{pattern!r} is not a regular expression that is known here: {exc}") from None
    return _Rule(compiled, tuple(_replacement(replacement, compiled)), case)


def _replacement(text: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Text, and numbers of groups."""
    parts: list[str | int] = []
    at = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[at : token.start()])
        at = token.end()
        escaped, name, number, _ = token.groups()
        if escaped is not None:
            parts.append(escaped)
        elif name is not None and name in pattern.groupindex:
            parts.append(pattern.groupindex[name])
        elif number is not None:
            parts += _numbered(number, pattern)
        else:
            raise ValueError(f"the replacement {text!r} names no group at {token[0]!r}; a dollar sign is written \\$")
    parts.append(text[at:])
    return parts


def _numbered(number: str, pattern: re.Pattern[str]) -> list[str | int]:
    """As many digits as make a group that there is, and the others as text; without such a group all of it is text."""
    count = 1
    while count < len(number) and int(number[: count + 1]) <= pattern.groups:
        count += 1
    if int(number[:count]) <= pattern.groups:
        return [int(number[:count]), number[count:]]
    if not pattern.groups:
        raise ValueError(f"${number}: the pattern {pattern.pattern!r} has no groups")
    return [f"${number}"]
