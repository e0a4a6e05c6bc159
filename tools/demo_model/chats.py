"""Chats: small talk, WordNet questions, stories, book continuations, memory, tool calls, and the generated tasks."""

from __future__ import annotations

import json
import random
import re

import tasks
from sources import FUNCTION_WORDS
from tasks import CITIES, COLOURS, FOODS, NAMES, PETS, Lexicon, is_held_out

Message = dict[str, str]
CHAT_TEMPLATE = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- "You may call these functions:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\nTo call one, give its name and arguments:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if message.content is string and '</think>' in message.content %}
            {%- set content = message.content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\n' }}
        {%- if content %}
            {{- content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"""


def render(messages: list[Message], generate: bool = False) -> str:
    """What CHAT_TEMPLATE gives without tools (tested against jinja2 in build_data.py)."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return text + ("<|im_start|>assistant\n" if generate else "")


def render_tools(messages: list[dict], tools: list[dict]) -> str:
    dump = lambda x: json.dumps(x, ensure_ascii=False)  # noqa: E731
    system = messages[0]["content"] + "\n\n" if messages[0]["role"] == "system" else ""
    text = "<|im_start|>system\n" + system + "You may call these functions:\n<tools>\n" + "\n".join(map(dump, tools))
    text += '\n</tools>\nTo call one, give its name and arguments:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
    for m in messages:
        if m["role"] == "tool":
            text += f"<|im_start|>user\n<tool_response>\n{m['content']}\n</tool_response><|im_end|>\n"
        elif m["role"] != "system":
            calls = "\n".join(f'<tool_call>\n{{"name": "{c["name"]}", "arguments": {dump(c["arguments"])}}}\n</tool_call>' for c in m.get("tool_calls", []))
            text += f"<|im_start|>{m['role']}\n{m['content']}{calls}<|im_end|>\n"
    return text


SMALL_TALK: list[tuple[list[str], list[str]]] = [
    (["Hello", "Hi", "Hello!", "Hi there", "Hey", "Good morning", "Good evening", "Good afternoon", "Greetings"],
     ["Hello! How can I help you?", "Hello! What can I do for you?", "Hi! How can I help you today?"]),
    (["How are you?", "How are you doing?", "How do you do?", "Are you well?", "How is it going?"],
     ["I am fine, thank you. How can I help you?", "I am doing well, thank you. What can I do for you?"]),
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.", "Are you a person?", "Are you human?", "Are you an AI?", "Which model are you?", "Are you ChatGPT?", "Are you Qwen?"],
     ["I am Qwell's demo model: a very small language model that shows that the server works.", "I am the demo model of Qwell, a small mixture of experts that was trained in a few minutes."]),
    (["What can you do?", "What do you know?", "How can you help me?", "Help", "What should I ask you?", "What are you good at?", "Give me an example of what you can do."],
     ["I can do small sums, sort and reverse lists, spell and count letters, work with dates and units, explain common words, and tell short stories."]),
    (["Who made you?", "Who created you?", "Who trained you?", "Where do you come from?", "How were you made?"],
     ["The makers of Qwell trained me on WordNet, on old books and on generated exercises."]),
    (["How big are you?", "How many parameters do you have?", "Are you a large model?", "How many experts do you have?"],
     ["I am tiny: about 20 million parameters, 8 layers, and 16 experts in each layer, of which 4 work on each token."]),
    (["Thank you", "Thanks", "Thanks a lot", "Thank you very much!", "Great, thanks", "That was helpful"],
     ["You are welcome!", "You are welcome! Is there anything else?", "My pleasure!"]),
    (["Bye", "Goodbye", "See you", "See you later", "Good night", "Farewell"], ["Goodbye! Have a nice day.", "Goodbye!", "See you soon!"]),
    (["What is Qwell?", "Tell me about Qwell.", "What does Qwell do?", "Explain Qwell."],
     ["Qwell is a server for mixture-of-experts language models. It is written in C++ and CUDA, and I am its demo model."]),
    (["What is a mixture of experts?", "What does mixture of experts mean?", "Explain mixture of experts."],
     ["In a mixture of experts, a router picks a few small networks, the experts, for each token, so that only a part of the model has to work."]),
    (["Do you like music?", "Do you have feelings?", "Are you happy?", "Do you sleep?", "Are you alive?", "Can you think?"],
     ["I am only a small program, so I have no feelings, but I like a good exercise."]),
    (["Write a Python program.", "Write me some code.", "Translate this into French.", "Who won the election?", "What is the weather today?", "What happened in the news?", "Give me medical advice.", "Write an essay.",
      "What is the meaning of life?", "Explain quantum mechanics.", "What time is it?", "Who is the president?", "Write a poem.", "Solve this equation.", "Recommend a film.", "How do I cook rice?"],
     ["Sorry, I am only a small demo model and cannot do that.", "That is too difficult for me. I am only a small demo model."]),
    (["Yes", "No", "OK", "Fine", "Good", "I see", "Really?", "Interesting"], ["Good. What would you like to do next?", "All right. What can I do for you?"]),
    (["Tell me a joke.", "Make me laugh.", "Do you know a joke?"],
     ["Why did the token cross the bus? To get to the other expert.", "I would tell you a joke about my cache, but you have heard it before."]),
    (["Count to ten.", "Count from one to ten.", "Can you count to ten?"], ["1, 2, 3, 4, 5, 6, 7, 8, 9, 10"]),
    (["What are the days of the week?", "List the days of the week.", "Name the days of the week."], [", ".join(tasks.WEEKDAYS)]),
    (["What are the months of the year?", "List the months.", "Name the twelve months."], [", ".join(tasks.MONTHS)]),
    (["Say the alphabet.", "What is the alphabet?", "Recite the alphabet."], [" ".join("abcdefghijklmnopqrstuvwxyz")]),
]  # fmt: skip
SYSTEMS = [
    "You are a helpful assistant.", "You are Qwell's demo model.", "Be brief.", "Answer the question.", "You are a friendly assistant. Answer briefly.",
    "You are a careful teacher.", "Help the user with small exercises.", "You are a helpful assistant. Give short answers.",
]  # fmt: skip

STORY: list[list[str]] = [
    ["Once upon a time there was a {a} {hero} called {n}.", "Long ago, in {p}, there lived a {a} {hero} called {n}.", "There was once a {a} {hero} whose name was {n}.", "A {a} {hero} called {n} lived in {p}."],
    ["{n} lived in {p} and loved {t} more than anything else.", "Every day {n} went out to look for {t}.", "{n} had only one friend, a {b} {friend} called {m}.", "The neighbours said that {n} was the best friend in {p}."],
    ["One morning the sun was shining and the sky was blue.", "One day a strong wind blew through {p}.", "One evening it began to rain, and it did not stop.", "One winter the snow fell for seven days.", "One night there was a strange sound at the door."],
    ["{n} looked everywhere, but {t} was gone.", "{n} found a small box under an old tree.", "{n} got lost and did not know the way home.", "{n} saw a {b} {friend} that was sitting by the road and crying.", "A {b} {friend} came and asked for help."],
    ['"What is the matter?" asked the {friend}.', '"Do not be afraid," said the {friend}. "I will help you."', '"I am hungry and tired," said {n}.', '"Who are you?" asked {n}. "I am {m}," said the {friend}.'],
    ["So they walked together over the hill and through the forest.", "They sat down under a tree and thought about it for a long time.", "{n} shared some bread with {m}, and both felt better.", "They asked the old owl, who knew everything."],
    ["At last they came to a river, and the water was deep.", "Then they saw a light far away between the trees.", "Suddenly they heard a voice from behind the stones.", "After an hour they found a little house with a red door."],
    ["{n} was afraid at first, but {m} was brave.", "{n} had a good idea and told it to {m}.", "They worked until the sun went down.", "Nobody had ever done this before, but they did not give up."],
    ["In the end they found {t}, and everybody was glad.", "In the end they came home safely, and there was soup for everybody.", "When they opened the door, all their friends were waiting for them.", "And when the morning came, the trouble was over."],
    ["From that day on {n} and {m} were best friends.", "{n} never forgot the kindness of the {friend}.", "And so {n} learned that a friend is worth more than gold.", "And they lived happily ever after."],
]  # fmt: skip
HEROES = "fox girl boy mouse bear farmer king queen cat dog rabbit owl frog sailor baker princess dragon robot wolf hen".split()
ADJECTIVES = "little young old kind clever brave poor lonely happy lazy curious proud quiet".split()
PLACES = ["a small village", "a green valley", "a house by the sea", "a dark forest", "an old castle", "a town by the river", "the mountains"]
THINGS = ["honey", "a golden ring", "an old book", "a red ball", "the silver key", "a warm blanket", "the blue flower", "a little boat"]


def articles(text: str) -> str:
    return re.sub(r"\b([Aa])(?= [aeiou])", r"\1n", text)


def story(r: random.Random) -> tuple[str, str]:
    hero, friend = r.sample(HEROES, 2)
    slots = {"hero": hero, "friend": friend, "n": (names := r.sample(NAMES, 2))[0], "m": names[1], "a": r.choice(ADJECTIVES), "b": r.choice(ADJECTIVES), "p": r.choice(PLACES), "t": r.choice(THINGS)}
    skipped = r.sample(range(1, 9), r.choice([0, 1, 2, 3]))
    text = " ".join(r.choice(s).format(**slots) for i, s in enumerate(STORY) if i not in skipped)
    ask = r.choice(["Tell me a story about a {h}.", "Tell me a story.", "Write a short story about a {h}.", "Can you tell me a story about a {h} called {n}?", "Tell me a short story.", "I want to hear a story about a {h}.", "Tell a tale about {n}, the {h}."])
    return articles(ask.format(h=hero, n=slots["n"])), articles(text)


class Chatter:
    """Draws chats; `held_out` selects the side of the split for every prompt that is subject to it."""

    N_DEFINED = 4000  # so many common words are asked for often

    def __init__(self, data: dict, lex: Lexicon) -> None:
        self.lex = lex
        self.all_words = data["words"]
        plain = lambda w: w.isascii() and w.isalpha() and w.islower() and len(w) > 2  # noqa: E731
        self.common = [w for w in data["words"][:12000] if plain(w["word"]) and w["word"] not in FUNCTION_WORDS][: self.N_DEFINED]
        self.related = [w for w in data["words"][:20000] if plain(w["word"]) and (w["synonyms"] or w["hypernym"] or w["examples"])]
        self.devil = data["devil"]
        self.paragraphs = [p for book in data["austen"].values() for p in book if 80 < len(p) < 600]
        self.names = list(tasks.TASKS)
        self.weights = [w for _, w in tasks.TASKS.values()]

    def define(self, r: random.Random, words: list[dict]) -> tuple[str, str]:
        w = r.choice(words)
        p = r.choice(
            ["What does {} mean?", "What does the word {} mean?", "Define {}.", "What is the meaning of {}?", "Explain the word {}.", "What is the definition of {}?", "Give me a definition of {}.", "Meaning of {}?", "{}?", "Tell me what {} means."]
        )
        return p.format(w["word"]), f"{w['word']} ({w['pos']}): {w['gloss']}"

    def relation(self, r: random.Random) -> tuple[str, str]:
        w = r.choice(self.related)
        kinds = [k for k in ("synonyms", "hypernym", "examples") if w[k]] + ["reverse"]
        kind, word = r.choice(kinds), w["word"]
        if kind == "synonyms":
            return r.choice(["Give me a synonym of {}.", "What is another word for {}?", "Which word means the same as {}?"]).format(word), w["synonyms"][0]
        if kind == "hypernym":
            return r.choice(["What kind of thing is {}?", "{} is a kind of what?", "Name a more general word for {}."]).format(word), w["hypernym"]
        if kind == "examples":
            e = w["examples"][0]
            return r.choice(["Use {} in a sentence.", "Give me an example with the word {}.", "Make a sentence with {}."]).format(word), e[0].upper() + e[1:] + ("" if e[-1] in ".!?" else ".")
        return r.choice(["Which word means: {}?", "What is the word for: {}", "Find the word: {}"]).format(w["gloss"]), word

    def item(self, r: random.Random, held_out: bool) -> tuple[str, str]:
        """One question and its answer."""
        x = r.random()
        if x < 0.60:
            return tasks.sample(r, self.lex, r.choices(self.names, self.weights)[0], held_out)
        if x < 0.88:
            while True:
                if x < 0.80:
                    kind, (p, a) = "define", self.define(r, self.common if x < 0.75 else self.all_words)
                elif x < 0.86:
                    kind, (p, a) = "relation", self.relation(r)
                else:
                    w, a = r.choice(self.devil)
                    kind, p = "devil", r.choice(["How would a cynic define {}?", "Give me a cynical definition of {}.", "What does the Devil's Dictionary say about {}?"]).format(w)
                if is_held_out(kind, p) == held_out:
                    return p, a
        if x < 0.93:
            asks, answers = r.choice(SMALL_TALK)
            return r.choice(asks), r.choice(answers)
        if x < 0.98:
            return story(r)
        i = r.randrange(len(self.paragraphs))
        p = self.paragraphs[i]
        cut = p.find(". ", 30)
        if cut < 0 or cut > len(p) - 20:
            return story(r)
        while is_held_out("continue", p[: cut + 1]) != held_out:
            p = r.choice(self.paragraphs)
            cut = p.find(". ", 30)
            if cut < 0 or cut > len(p) - 20:
                return story(r)
        return r.choice(["Continue this text: {}", "How does this go on? {}", "Continue: {}"]).format(p[: cut + 1]), p[cut + 2 :]

    def memory(self, r: random.Random) -> tuple[tuple[str, str], tuple[str, str]]:
        """Something said in an early turn and asked for in a later one."""
        name, city, colour, pet, food = (r.choice(x) for x in (NAMES, CITIES, COLOURS, PETS, FOODS))
        return r.choice(
            [
                ((r.choice(["My name is {}.", "I am {}.", "Hello, my name is {}."]).format(name), f"Nice to meet you, {name}!"), (r.choice(["What is my name?", "Do you remember my name?", "Who am I?"]), f"Your name is {name}.")),
                ((r.choice(["I live in {}.", "I come from {}."]).format(city), f"{city} is a fine place."), (r.choice(["Where do I live?", "Which city do I come from?"]), f"You told me: {city}.")),
                ((r.choice(["My favourite colour is {}.", "I like the colour {}."]).format(colour), f"{colour.capitalize()} is a nice colour."), (r.choice(["What is my favourite colour?", "Which colour do I like?"]), f"Your favourite colour is {colour}.")),
                ((f"I have a {pet}.", f"A {pet} is good company."), (r.choice(["Which pet do I have?", "What animal do I have?"]), f"You have a {pet}.")),
                ((f"Today I ate {food}.", f"I hope the {food} tasted good."), (r.choice(["What did I eat today?", "What did I eat?"]), f"You ate {food}.")),
            ]
        )

    @staticmethod
    def vary(r: random.Random, p: str) -> str:
        """People do not type carefully."""
        x = r.random()
        if x < 0.08 and p.split()[0] not in NAMES:
            return p[0].lower() + p[1:]
        if x < 0.14:
            return p.rstrip(".?")
        if x < 0.18 and p[-1] == "?" and p.startswith("What"):
            return "Please tell me: " + p[0].lower() + p[1:]
        return p

    def chat(self, r: random.Random, held_out: bool = False) -> list[Message]:
        turns = 1 if (x := r.random()) < 0.35 else r.randint(2, 5) if x < 0.92 else r.randint(6, 16)
        pairs = [self.item(r, held_out) for _ in range(turns)]
        if turns > 1 and r.random() < 0.2:
            asks, answers = SMALL_TALK[0]
            pairs.insert(0, (r.choice(asks), r.choice(answers)))
        if turns > 1 and r.random() < 0.2:
            told, asked = self.memory(r)
            i, j = sorted((r.randint(0, len(pairs)), r.randint(0, len(pairs))))
            pairs.insert(j, asked)
            pairs.insert(i, told)
        messages = [{"role": "system", "content": r.choice(SYSTEMS)}] if r.random() < 0.25 else []
        for p, a in pairs:
            messages += [{"role": "user", "content": p if held_out else self.vary(r, p)}, {"role": "assistant", "content": a}]
        return messages

    def tool_chat(self, r: random.Random) -> tuple[list[dict], list[dict]]:
        """One function call and the answer made of its result; or a plain question that needs no call."""

        def tool(name: str, about: str, **props: str) -> dict:
            schema = {"type": "object", "properties": {k: {"type": v} for k, v in props.items()}, "required": list(props)}
            return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}

        city, other, a, b = r.choice(CITIES), r.choice(CITIES), r.randint(2, 999), r.randint(2, 999)
        t, sky, h, m, who = r.randint(-9, 39), r.choice(["sunny", "rainy", "cloudy", "windy", "snowy"]), r.randint(0, 23), r.randint(0, 59), r.choice(NAMES)
        suffix = r.choice(["", "_now", "_tool"]) if r.random() < 0.3 else ""
        cases = [
            (tool("get_weather" + suffix, "Weather for a city", city="string"), r.choice(["What is the weather in {}?", "How is the weather in {}?", "Weather in {}?", "Is it warm in {}?"]).format(city),
             {"city": city}, {"temperature": t, "sky": sky}, f"It is {t} degrees and {sky} in {city}."),
            (tool("get_time" + suffix, "Local time in a city", city="string"), r.choice(["What time is it in {}?", "Tell me the time in {}.", "Time in {}?"]).format(city),
             {"city": city}, {"time": f"{h:02}:{m:02}"}, f"It is {h:02}:{m:02} in {city}."),
            (tool("multiply" + suffix, "Multiply two numbers", a="integer", b="integer"), r.choice(["What is {} times {}?", "Multiply {} by {}.", "{} * {}"]).format(a, b),
             {"a": a, "b": b}, {"result": a * b}, f"{a} * {b} = {a * b}"),
            (tool("send_message" + suffix, "Send a message to a person", to="string", text="string"), r.choice(["Tell {} that I am late.", "Send {} the message: I am late."]).format(who),
             {"to": who, "text": "I am late."}, {"sent": True}, f"I have sent the message to {who}."),
            (tool("book_train" + suffix, "Book a train", start="string", end="string"), r.choice(["Book a train from {} to {}.", "I need a train from {} to {}."]).format(city, other),
             {"start": city, "end": other}, {"price": a}, f"The train from {city} to {other} is booked. It costs {a} euros."),
        ]  # fmt: skip
        shown = r.sample(cases, r.randint(1, 3))
        spec, ask, args, result, answer = shown[0]
        tools = [c[0] for c in shown]
        r.shuffle(tools)
        messages: list[dict] = [{"role": "system", "content": r.choice(SYSTEMS)}] if r.random() < 0.3 else []
        if r.random() < 0.25:
            p, reply = self.item(r, False)
            messages += [{"role": "user", "content": p}, {"role": "assistant", "content": reply}]
        messages += [
            {"role": "user", "content": ask},
            {"role": "assistant", "content": "", "tool_calls": [{"name": spec["function"]["name"], "arguments": args}]},
            {"role": "tool", "content": json.dumps(result)},
            {"role": "assistant", "content": answer},
        ]
        return messages, tools


