"""Words that stand for each other: what a lexical veto lets pass as a restatement.

Owns the table of synonyms and the endings that leave a word what it is. Kept apart from the
opposites (`memory.engine.contrasts`), which it never overrules: a word may stand in both.

Invariant: everything is lower case. A missing synonym costs a merge, a wrong one lets a pair pass
that differs in that word alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from memory.engine.contrasts import inflect, words_of

# A line holds words that stand for each other among software teams, in one of their senses.
_SYNONYMS: Final = """
add append insert introduce
admin administrator operator
alert alarm notification notice
allow let permit enable
app application program
archive archived archival
ask request query
begin start launch
bill billing invoice invoicing
bug defect fault error issue problem
build compile
build create make produce generate construct
call invoke request
cancel abort stop
change modify edit update alter
check verify validate test
choose pick select decide
clean clear purge empty flush invalidate
client customer user
cluster fleet
code source
config configuration setting settings
connect attach link
contain include hold have
copy duplicate replicate mirror
crash fail break die
db database
delete remove erase drop purge
deploy release ship roll rollout
describe explain document
developer engineer programmer dev
directory folder
docs documentation
documents files
e-mail email mail
endpoint route
environment env
event message
execute run perform
expire lapse end
fast quick quickly
fetch get retrieve load read pull
file document
find detect discover spot
finish complete end
fix repair correct patch
flag toggle switch
give grant assign
happen occur
host machine node server
job task
keep retain store hold save
kind type sort
large big huge
last latest newest recent
library package
limit cap bound restrict
list show display
log record
login signin logon
main primary
mandatory required needed
member user
merge combine join
migrate move transfer
monitor watch observe
must should need have
name call
need require want
new fresh
often frequently
own maintain manage
owner maintainer responsible
parallel concurrently simultaneously
parse read
password passphrase
pay charge
person people user
picture photo image
plan schedule
prefer favour favor like
prevent avoid
process handle
project repository repo
publish release
put place store
queue backlog
quit exit stop
rebuild recreate regenerate
receive get
refuse reject deny decline
rename renamed
repeat retry again reattempt attempt redo
replace swap substitute
report dashboard
reset clear
resolve fix close
result outcome
return give answer respond reply
review inspect check
rotate change renew
save store keep persist write
script program
second sec
secret credential
send deliver ship emit transmit forward
server backend
service system
setup installation
share split
skip ignore omit
slow sluggish
small little tiny
start launch boot
store persist keep save hold
support handle
team group squad
tell inform notify
ticket issue
timeout deadline
token key
try attempt
type kind
upload send
use apply employ utilise utilize rely
user person account
value number
view see show
wait pause
warn alert
website site page
work function
worker runner
write save
"""


def _read_synonyms() -> Mapping[str, frozenset[int]]:
    lines: dict[str, set[int]] = {}
    for line, words in enumerate(_SYNONYMS.strip().splitlines()):
        for word in words.replace("-", "").split():
            for form in inflect(word):
                lines.setdefault(form, set()).add(line)
    return MappingProxyType({word: frozenset(found) for word, found in lines.items()})


SYNONYMS: Final = _read_synonyms()
"""The lines of each form. Two words that share one may stand for each other."""

INFLECTIONS: Final = words_of(
    """
    s es d ed e ing er ers or ion ions ation ment ly al y ies ied able ive ped ping ted ting ned
    ning
    """
) | {""}
"""Endings that leave a word what it is, near enough."""
