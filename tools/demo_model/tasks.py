"""Generated tasks with checkable answers.

Every generator returns (prompt, reply).  The checkable answer is the last line of the reply: a task with working steps puts
them on the lines before.  Whether a prompt belongs to training or to the evaluation is decided by a hash of the prompt.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

Item = tuple[str, str]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
NAMES = (
    "Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Victor Alice Bruno Cora Dan Ella Frank "
    "Gina Hugo Iris James Karl Lucy Max Nina Oscar Peter Ruth Simon Tom Vera Walter Zoe Adam Beth Carl Diana Eric Fiona George Helen"
).split()
COLOURS = "red blue green yellow purple orange black white brown pink grey golden silver".split()
PETS = "dog cat horse rabbit parrot turtle goldfish hamster pony canary mouse goat".split()
CITIES = "Paris London Rome Madrid Berlin Vienna Oslo Dublin Athens Lisbon Prague Warsaw Cairo Tokyo Delhi Boston Chicago Toronto Lima Sydney".split()
FOODS = "bread rice soup cheese pasta fish apples cake salad pizza potatoes honey noodles beans pears".split()
GOODS = "apples pears books coins pencils stamps marbles eggs oranges shells cards candles buttons cups plums nuts tickets stones".split()


def is_held_out(task: str, prompt: str) -> bool:
    """One prompt in ten is never trained on (case, blanks and the closing mark do not matter)."""
    norm = re.sub(r"\W+$", "", " ".join(prompt.lower().split()))
    return int.from_bytes(hashlib.sha256(f"{task}|{norm}".encode()).digest()[:4], "big") % 10 == 0


@dataclass
class Lexicon:
    words: list[str]  # common lower-case words
    plurals: list[tuple[str, str]]
    opposites: list[tuple[str, str]]
    facts: list[tuple[str, str, str]] = field(default_factory=list)  # kind, key, value


def number(r: random.Random, digits: int) -> int:
    """The number of digits is uniform, so that short numbers are not rare."""
    d = r.randint(1, digits)
    return r.randint(0 if d == 1 else 10 ** (d - 1), 10**d - 1)


def join(items: list) -> str:
    return ", ".join(map(str, items))


def add(r: random.Random, lex: Lexicon) -> Item:
    a, b = number(r, 4), number(r, 4)
    p = r.choice(
        ["What is {} + {}?", "{} + {}", "{}+{}", "{} + {} = ?", "Add {} and {}.", "What is {} plus {}?", "What is the sum of {} and {}?", "Calculate {} + {}.", "How much is {} + {}?"]
    )
    return p.format(a, b), f"{a} + {b} = {a + b}"


def subtract(r: random.Random, lex: Lexicon) -> Item:
    a, b = sorted((number(r, 4), number(r, 4)), reverse=True)
    p, swap = r.choice(
        [("What is {} - {}?", 0), ("{} - {}", 0), ("{}-{}", 0), ("{} - {} = ?", 0), ("Subtract {} from {}.", 1), ("What is {} minus {}?", 0), ("Calculate {} - {}.", 0), ("How much is {} - {}?", 0)]
    )
    return (p.format(b, a) if swap else p.format(a, b)), f"{a} - {b} = {a - b}"


def multiply(r: random.Random, lex: Lexicon) -> Item:
    a, b = (r.randint(2, 12), r.randint(2, 12)) if r.random() < 0.4 else (r.randint(2, 99), r.randint(2, 9))
    if r.random() < 0.5:
        a, b = b, a
    p = r.choice(["What is {} * {}?", "{} * {}", "{}*{}", "What is {} times {}?", "Multiply {} by {}.", "Calculate {} x {}.", "What is {} x {}?", "What is the product of {} and {}?"])
    return p.format(a, b), f"{a} * {b} = {a * b}"


def divide(r: random.Random, lex: Lexicon) -> Item:
    b, q = r.randint(2, 12), r.randint(1, 30)
    p = r.choice(["What is {} / {}?", "{} / {}", "{}/{}", "What is {} divided by {}?", "Divide {} by {}.", "Calculate {} / {}.", "How much is {} / {}?", "{} / {} = ?"])
    return p.format(b * q, b), f"{b * q} / {b} = {q}"


def compare(r: random.Random, lex: Lexicon) -> Item:
    n = r.choice([2, 2, 3, 4])
    xs: list[int] = []
    while len(xs) < n:
        x = number(r, 4) if not xs or r.random() < 0.5 else max(0, xs[0] + r.randint(-200, 200))
        if x not in xs:
            xs.append(x)
    big = r.random() < 0.5
    word = r.choice(["larger", "bigger", "greater"] if big else ["smaller"]) if n == 2 else ("largest" if big else "smallest")
    listed = f"{xs[0]} or {xs[1]}" if n == 2 else join(xs[:-1]) + f" or {xs[-1]}"
    p = r.choice(["Which is {w}: {l}?", "Which number is {w}, {l}?", "Which one is {w}, {l}?", "What is {w}, {l}?"])
    return p.format(w=word, l=listed), str(max(xs) if big else min(xs))


def sort_numbers(r: random.Random, lex: Lexicon) -> Item:
    xs = r.sample(range(1000), r.randint(3, 6)) if r.random() < 0.5 else r.sample(range(100), r.randint(3, 6))
    if r.random() < 0.7:
        p = r.choice(["Sort these numbers: {}", "Sort {}", "Sort {} in ascending order.", "Put these numbers in order: {}", "Order these numbers from smallest to largest: {}"])
        return p.format(join(xs)), join(sorted(xs))
    p = r.choice(["Sort these numbers in descending order: {}", "Order these numbers from largest to smallest: {}", "Sort {} from largest to smallest."])
    return p.format(join(xs)), join(sorted(xs, reverse=True))


def pick(r: random.Random, lex: Lexicon, low: int, high: int) -> list[str]:
    return r.sample(lex.words, r.randint(low, high))


def sort_words(r: random.Random, lex: Lexicon) -> Item:
    xs = pick(r, lex, 3, 4)
    p = r.choice(["Sort these words alphabetically: {}", "Put these words in alphabetical order: {}", "Sort {} alphabetically.", "Alphabetical order, please: {}"])
    return p.format(join(xs)), join(sorted(xs))


def reverse_words(r: random.Random, lex: Lexicon) -> Item:
    xs = pick(r, lex, 3, 7)
    p = r.choice(["Reverse this list: {}", "Reverse the order of these words: {}", "Write these words in reverse order: {}", "List these words backwards: {}"])
    return p.format(join(xs)), join(xs[::-1])


def reverse_numbers(r: random.Random, lex: Lexicon) -> Item:
    xs = [number(r, 3) for _ in range(r.randint(3, 7))]
    p = r.choice(["Reverse this list: {}", "Reverse the order of these numbers: {}", "Write these numbers in reverse order: {}", "List these numbers backwards: {}"])
    return p.format(join(xs)), join(xs[::-1])


def copy(r: random.Random, lex: Lexicon) -> Item:
    xs = pick(r, lex, 3, 8) if r.random() < 0.6 else [str(number(r, 4)) for _ in range(r.randint(3, 8))]
    text = r.choice([" ", ", "]).join(xs)
    return r.choice(["Repeat after me: {}", "Repeat: {}", "Copy this text: {}", "Say exactly this: {}", "Echo: {}"]).format(text), text


def count_items(r: random.Random, lex: Lexicon) -> Item:
    xs = pick(r, lex, 2, 9) if r.random() < 0.7 else [str(number(r, 3)) for _ in range(r.randint(2, 9))]
    p = r.choice(["How many items are in this list: {}", "Count the items: {}", "How many things are listed here: {}", "How long is this list: {}"])
    return p.format(join(xs)), str(len(xs))


def spell(r: random.Random, lex: Lexicon) -> Item:
    w = r.choice(lex.words)
    p = r.choice(["Spell the word {}.", "Spell {}.", "How do you spell {}?", "How is the word {} spelled?", "What letters are in the word {}?", "Please spell out {}.", "Spell '{}'.", "Can you spell {}?"])
    return p.format(w), "-".join(w)


def spell_backwards(r: random.Random, lex: Lexicon) -> Item:
    w = r.choice(lex.words)
    p = r.choice(["Spell {} backwards.", "Spell the word {} backwards.", "Reverse the letters of {}.", "Write {} backwards.", "What is {} spelled backwards?", "Reverse the word '{}'."])
    return p.format(w), "-".join(w) + "\n" + "-".join(w[::-1])


def count_letters(r: random.Random, lex: Lexicon) -> Item:
    w = r.choice(lex.words)
    if r.random() < 0.4:
        p = r.choice(["How many letters are in the word {}?", "How many letters does {} have?", "How long is the word {}?", "Count the letters in {}."])
        return p.format(w), "-".join(w) + f"\n{len(w)}"
    c = r.choice(w) if r.random() < 0.8 else r.choice("abcdefghilmnoprstuy")
    p = r.choice(["How many times does the letter {c} occur in {w}?", "How many {c}'s are in {w}?", "Count the letter {c} in the word {w}.", "How often does {c} appear in the word {w}?"])
    return p.format(w=w, c=c), "-".join(w) + f"\n{w.count(c)}"


def letter_at(r: random.Random, lex: Lexicon) -> Item:
    w = r.choice(lex.words)
    names = ["first", "second", "third", "fourth", "fifth"]
    i = r.choice([*range(min(5, len(w))), -1, -1])
    p = r.choice(["What is the {n} letter of {w}?", "What is the {n} letter of the word {w}?", "Which letter is the {n} letter in {w}?", "Give me the {n} letter of '{w}'."])
    return p.format(n="last" if i < 0 else names[i], w=w), "-".join(w) + f"\n{w[i]}"


def show_date(d: dt.date) -> str:
    return f"{d.day} {MONTHS[d.month - 1]} {d.year}"


def date_step(r: random.Random, lex: Lexicon) -> Item:
    d = dt.date(1950, 1, 1) + dt.timedelta(days=r.randrange(29000))
    if r.random() < 0.4:  # the ends of months are where it gets difficult
        d = dt.date(d.year, d.month, 1) + dt.timedelta(days=r.choice([-2, -1, 0, 0]))
    if r.random() < 0.1:
        d = dt.date(d.year, 2, 28)
    after = r.random() < 0.6
    p = r.choice(["What date comes {} {}?", "What is the day {} {}?", "Which date is one day {} {}?", "What is the date of the day {} {}?"])
    return p.format("after" if after else "before", show_date(d)), show_date(d + dt.timedelta(days=1 if after else -1))


def weekday(r: random.Random, lex: Lexicon) -> Item:
    """Working steps: the whole weeks go, then the days are counted one by one."""
    i, n = r.randrange(7), r.randint(1, 40)
    days = f"{n} day{'s' if n > 1 else ''}"
    sign = 1 if r.random() < 0.65 else -1
    if sign > 0:
        p = r.choice(
            ["What day is {n} after {d}?", "Today is {d}. What day is it in {n}?", "If today is {d}, what day will it be in {n}?", "Which weekday comes {n} after {d}?", "{n} after {d}?", "It is {d} today. Which day is it {n} from now?"]
        )
    else:
        p = r.choice(
            ["What day is {n} before {d}?", "Today is {d}. What day was it {n} ago?", "If today is {d}, what day was it {n} ago?", "Which weekday comes {n} before {d}?", "{n} before {d}?", "It is {d} today. Which day was {n} ago?"]
        )
    mark = "+" if sign > 0 else "-"
    steps = ", ".join([WEEKDAYS[i]] + [f"{mark}{k} {WEEKDAYS[(i + sign * k) % 7]}" for k in range(1, n % 7 + 1)])
    return p.format(n=days, d=WEEKDAYS[i]), f"{n} = {n // 7} * 7 + {n % 7}\n{steps}\n{WEEKDAYS[(i + sign * n) % 7]}"


def days_between(r: random.Random, lex: Lexicon) -> Item:
    m = r.choice(MONTHS)
    last = {"February": 28, "April": 30, "June": 30, "September": 30, "November": 30}.get(m, 31)
    a, b = sorted(r.sample(range(1, last + 1), 2))
    p = r.choice(["How many days are there from {a} {m} to {b} {m}?", "How many days is it from {a} {m} to {b} {m}?", "How many days lie between {m} {a} and {m} {b}?", "Days from {m} {a} to {m} {b}?"])
    return p.format(a=a, b=b, m=m), f"{b - a} day{'s' if b - a > 1 else ''}"


UNITS = [
    ("kilometres", "metres", 1000, 200), ("metres", "centimetres", 100, 500), ("metres", "millimetres", 1000, 200), ("centimetres", "millimetres", 10, 500),
    ("kilograms", "grams", 1000, 200), ("tonnes", "kilograms", 1000, 200), ("litres", "millilitres", 1000, 200), ("hours", "minutes", 60, 48),
    ("minutes", "seconds", 60, 60), ("days", "hours", 24, 31), ("weeks", "days", 7, 60), ("years", "months", 12, 40), ("feet", "inches", 12, 40),
    ("yards", "feet", 3, 100), ("dozens", "items", 12, 30), ("euros", "cents", 100, 300), ("dollars", "cents", 100, 300), ("centuries", "years", 100, 50),
]  # fmt: skip


def convert(r: random.Random, lex: Lexicon) -> Item:
    big, small, factor, limit = r.choice(UNITS)
    n = r.randint(2, limit if r.random() < 0.6 else 30)
    x, y, a, b = (n, n * factor, big, small) if r.random() < 0.65 else (n * factor, n, small, big)
    p = r.choice(["Convert {x} {a} to {b}.", "How many {b} are {x} {a}?", "{x} {a} in {b}?", "What is {x} {a} in {b}?", "Express {x} {a} in {b}.", "How many {b} make {x} {a}?"])
    return p.format(x=x, a=a, b=b), f"{x} {a} = {y} {b}"


def plural(r: random.Random, lex: Lexicon) -> Item:
    one, many = r.choice(lex.plurals)
    if r.random() < 0.7:
        p = r.choice(["What is the plural of {}?", "Give me the plural of {}.", "Plural of {}?", "What is the plural form of '{}'?", "One {}, two what?", "How do you write more than one {}?"])
        return p.format(one), many
    p = r.choice(["What is the singular of {}?", "Give me the singular of {}.", "Singular of {}?", "What is the singular form of '{}'?"])
    return p.format(many), one


def opposite(r: random.Random, lex: Lexicon) -> Item:
    a, b = r.choice(lex.opposites)
    p = r.choice(
        ["What is the opposite of {}?", "Opposite of {}?", "Give me the opposite of {}.", "Name the opposite of '{}'.", "What is the antonym of {}?", "Which word means the opposite of {}?", "What is an antonym of '{}'?", "Tell me the opposite of {}."]
    )
    return p.format(a), b


def fact(r: random.Random, lex: Lexicon) -> Item:
    kind, key, value = r.choice(lex.facts)
    phrases = {
        "capital": ["What is the capital of {}?", "Capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?", "What city is the capital of {}?", "Tell me the capital of {}.", "Do you know the capital of {}?", "What is {}'s capital?"],
        "symbol": ["What is the chemical symbol for {}?", "Chemical symbol of {}?", "What is the symbol of {}?", "Which symbol does {} have?", "Name the chemical symbol for {}.", "Tell me the symbol for the element {}.", "How is {} abbreviated in chemistry?"],
    }[kind]
    return r.choice(phrases).format(key), value


def sequence(r: random.Random, lex: Lexicon) -> Item:
    step, start = r.randint(1, 25), r.randint(0, 120)
    xs = [start + i * step for i in range(5)]
    if r.random() < 0.25:
        xs = [start + (5 - i) * step for i in range(5)]
    shown, nxt = xs[:4], xs[4]
    p = r.choice(["What comes next: {}, ...?", "Continue the sequence: {}", "What is the next number: {}", "Which number follows: {}, ?"])
    return p.format(join(shown)), str(nxt)


ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")
    unit, name = (100, "hundred") if n < 1000 else (1000, "thousand")
    rest = n % unit
    return f"{in_words(n // unit)} {name}" + (f" {'and ' if rest < 100 else ''}{in_words(rest)}" if rest else "")


def number_words(r: random.Random, lex: Lexicon) -> Item:
    n = number(r, 4) if r.random() < 0.5 else r.randint(0, 9999)
    if r.random() < 0.5:
        return r.choice(["Write {} in words.", "How do you write {} in words?", "Spell out the number {}.", "{} in words?"]).format(n), in_words(n)
    return r.choice(["Write {} in digits.", "Write {} as a number.", "Which number is {}?", "{} in digits?"]).format(in_words(n)), str(n)


def clock(r: random.Random, lex: Lexicon) -> Item:
    h, m, plus = r.randint(0, 23), 5 * r.randrange(12), r.choice([5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 90, 120])
    if r.random() < 0.7:
        t = (h * 60 + m + plus) % 1440
        p = r.choice(["What time is it {p} minutes after {h:02}:{m:02}?", "It is {h:02}:{m:02}. What time is it in {p} minutes?", "Add {p} minutes to {h:02}:{m:02}."])
    else:
        t = (h * 60 + m - plus) % 1440
        p = r.choice(["What time is it {p} minutes before {h:02}:{m:02}?", "It is {h:02}:{m:02}. What time was it {p} minutes ago?"])
    return p.format(p=plus, h=h, m=m), f"{t // 60:02}:{t % 60:02}"


def even_odd(r: random.Random, lex: Lexicon) -> Item:
    n = r.randint(0, 9999) if r.random() < 0.5 else number(r, 4)
    return r.choice(["Is {} even or odd?", "Is the number {} odd or even?", "Even or odd: {}?", "Tell me whether {} is even or odd."]).format(n), "even" if n % 2 == 0 else "odd"


def story_sum(r: random.Random, lex: Lexicon) -> Item:
    a, b, who, other, what = r.randint(2, 60), r.randint(2, 60), *r.sample(NAMES, 2), r.choice(GOODS)
    if r.random() < 0.5:
        p = r.choice(
            ["{w} has {a} {t} and buys {b} more. How many {t} does {w} have now?", "{w} has {a} {t} and {o} has {b} {t}. How many {t} do they have together?", "{w} found {a} {t} yesterday and {b} {t} today. How many {t} is that?"]
        )
        return p.format(w=who, o=other, a=a, b=b, t=what), f"{a} + {b} = {a + b} {what}"
    a, b = max(a, b) + 1, min(a, b)
    p = r.choice(
        ["{w} has {a} {t} and gives {b} to {o}. How many {t} does {w} have left?", "{w} had {a} {t} and lost {b} of them. How many {t} are left?", "There were {a} {t} in the box and {w} took {b}. How many {t} are still in the box?"]
    )
    rest = a - b
    return p.format(w=who, o=other, a=a, b=b, t=what), f"{a} - {b} = {rest} {what}"


def lookup(r: random.Random, lex: Lexicon) -> Item:
    """Reading comprehension: one sentence per person, and a question about one of them."""
    who = r.sample(NAMES, r.randint(2, 5))
    kind = r.choice(["colour", "city", "food", "pet"])
    values = r.sample({"colour": COLOURS, "city": CITIES, "food": FOODS, "pet": PETS}[kind], len(who))
    said = {"colour": "{} likes {}.", "city": "{} lives in {}.", "food": "{} eats {}.", "pet": "{} has a {}."}[kind]
    asked = {"colour": "Which colour does {} like?", "city": "Where does {} live?", "food": "What does {} eat?", "pet": "Which pet does {} have?"}[kind]
    i = r.randrange(len(who))
    facts = [said.format(w, v) for w, v in zip(who, values)]
    return f"{' '.join(facts)} {asked.format(who[i])}", facts[i]


# name -> (generator, share of the generated tasks)
TASKS: dict[str, tuple[Callable[[random.Random, Lexicon], Item], float]] = {
    "add": (add, 2.4), "subtract": (subtract, 2.8), "multiply": (multiply, 1.6), "divide": (divide, 0.7), "compare": (compare, 1.8),
    "sort_numbers": (sort_numbers, 1.8), "sort_words": (sort_words, 4.5), "reverse_words": (reverse_words, 0.8), "reverse_numbers": (reverse_numbers, 0.6),
    "copy": (copy, 0.8), "count_items": (count_items, 0.8), "spell": (spell, 0.7), "spell_backwards": (spell_backwards, 1),
    "count_letters": (count_letters, 2.2), "letter_at": (letter_at, 1.2), "date_step": (date_step, 1.2), "weekday": (weekday, 1.6), "days_between": (days_between, 0.9),
    "convert": (convert, 1.2), "plural": (plural, 1.2), "opposite": (opposite, 0.8), "fact": (fact, 0.7), "sequence": (sequence, 1),
    "number_words": (number_words, 1), "clock": (clock, 1.4), "even_odd": (even_odd, 0.4), "story_sum": (story_sum, 1), "lookup": (lookup, 2),
}  # fmt: skip


def sample(r: random.Random, lex: Lexicon, task: str, held_out: bool) -> Item:
    """One item of the task whose prompt lies on the wanted side of the split."""
    while True:
        prompt, reply = TASKS[task][0](r, lex)
        if is_held_out(task, prompt) == held_out:
            return prompt, reply


def regular_plural(w: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", w):
        return w + "es"
    if re.search(r"[^aeiou]y$", w):
        return w[:-1] + "ies"
    return w + "s"


def make_lexicon(data: dict, words: list[str]) -> Lexicon:
    chosen = set(words)
    irregular = {"man": "men", "woman": "women", "child": "children", "foot": "feet", "tooth": "teeth", "mouse": "mice", "goose": "geese", "life": "lives",
                 "wife": "wives", "knife": "knives", "leaf": "leaves", "half": "halves", "wolf": "wolves", "shelf": "shelves", "ox": "oxen", "sheep": "sheep",
                 "fish": "fish", "deer": "deer", "person": "people", "potato": "potatoes", "tomato": "tomatoes", "hero": "heroes", "echo": "echoes",
                 "crisis": "crises", "analysis": "analyses", "thief": "thieves", "loaf": "loaves", "calf": "calves", "wharf": "wharves"}  # fmt: skip
    listed = data["irregular_plurals"]
    nouns = [w["word"] for w in data["words"] if w["word"] in chosen and w["pos"] == "noun"]
    skip = re.compile(r"(f|fe|o|is|us|um|men|ics|ss|man|z|ness|s)$")
    plurals = list(irregular.items()) + [(n, regular_plural(n)) for n in nouns if n not in irregular and n not in listed.values() and n not in listed and not skip.search(n)]
    opposites = [(w["word"], w["antonym"]) for w in data["words"][:6000] if w["antonym"] and w["word"].islower() and w["antonym"].islower() and " " not in w["word"] + w["antonym"]]
    facts = [("capital", k, v) for k, v in data["capitals"].items()] + [("symbol", k, v) for k, v in data["symbols"].items()]
    return Lexicon(words, plurals, opposites, facts)
