"""Simple children's stories from a seeded generator: the data set that needs no download.

Story `index` depends only on the seed and the index, so any part of the collection can be generated on its own. Each
story has a hero and a friend. Their names, kinds and pronouns are consistent throughout.
"""

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSION = "7b2fd579e4fe2f8a"  # what a run records of its texts; another one for other texts
_TEMPLATES = tomllib.loads(Path(__file__).with_name("stories.toml").read_text(encoding="utf-8"))
GIRLS = """
    Lily Mia Anna Sue Lucy Emma Sara Amy Zoe Molly Ella Rose Nina Kate Daisy Clara Ruby Grace Hannah Ivy Julia Laura
    Maria Nora Olivia Penny Rachel Sophie Tina Wendy Isabel Veronica Yvonne Beatrice
""".split()
BOYS = """
    Tom Ben Tim Max Sam Jack Leo Finn Bob Dan Luke Joe Nick Owen Billy Adam Charlie David Eric Fred George Henry
    Jacob Kevin Mark Oscar Peter Robert Simon Victor William Xavier Zachary Theodore
""".split()
ANIMALS = """
    cat dog rabbit bear fox mouse duck frog squirrel hedgehog elephant lion tiger monkey penguin owl turtle pig goat
    sheep horse deer beaver kangaroo raccoon camel giraffe zebra parrot chicken donkey hamster panda
""".split()
CHILDREN = {"girl": GIRLS, "boy": BOYS}
PRONOUNS = {"girl": ("she", "her", "her"), "boy": ("he", "him", "his")}
PARENTS = ("mom", "dad", "grandma", "grandpa", "aunt", "uncle", "sister", "brother")
COLORS = "red blue green yellow purple orange white brown pink golden silver black".split()
SIZES = "little big tiny shiny old new pretty soft round wooden fluffy lovely".split()
TOYS = """
    ball kite doll truck boat drum puzzle robot train teddy balloon bicycle whistle trumpet crown castle rocket
    spaceship necklace umbrella lantern marble scooter wagon guitar helmet blanket bracelet telescope dinosaur
    xylophone skateboard backpack flute microscope parachute jigsaw compass
""".split()
FOODS = """
    apple cookie cake pear carrot sandwich pie muffin banana cherry strawberry pancake peach plum melon pumpkin
    potato tomato biscuit sausage pretzel waffle cupcake doughnut noodle dumpling mango pineapple
""".split()
FILLINGS = "apple cherry pumpkin peach plum strawberry lemon blueberry potato mushroom".split()
PLACES = tuple(
    f"the {word}"
    for word in """
    park garden forest beach farm river hill meadow pond playground village market mountain lake valley island
    orchard bridge harbor field
""".split()
)
HIDING = (
    "under the bed", "behind a tree", "in a basket", "under a bench", "inside a box", "next to a big "
        "rock", "below the stairs",
    "between two bushes", "on top of the roof", "in the tall grass", "near the fence", "in a "
        "drawer", "under a pile of leaves",
    "behind the curtain", "in the mailbox",
)  # fmt: skip
WEATHER = ("sunny", "warm", "windy", "cloudy", "bright", "cold", "foggy", "snowy", "hot", "cool")
TRAITS = """
    happy kind curious brave quiet funny clever gentle friendly cheerful polite shy playful lazy stubborn proud
    honest helpful silly patient careless generous thoughtful grumpy adventurous imaginative
""".split()
TIMES = ("morning", "afternoon", "evening")


@dataclass(frozen=True)
class Character:
    """A character of a story: a name, a kind (`girl`, `boy` or an animal) and a gender, which selects the pronouns."""

    name: str
    kind: str
    gender: str

    @classmethod
    def draw(cls, rng: random.Random, other: "Character | None" = None) -> "Character":
        """A random child or animal. Its gender differs from that of `other`, so every pronoun is unambiguous."""
        gender = rng.choice(("girl", "boy")) if other is None else "boy" if other.gender == "girl" else "girl"
        kind = rng.choice(ANIMALS) if rng.random() < 0.3 else gender
        return cls(rng.choice(CHILDREN[gender]), kind, gender)

    def words(self, role: str) -> dict[str, str]:
        """The template slots of this character: `{hero}`, `{hero_he}`, `{hero_him}`, `{hero_his}`, `{Hero_he}`, ..."""
        he, him, his = PRONOUNS[self.gender]
        slots = {role: self.name, f"{role}_kind": self.kind}
        for slot, word in (("he", he), ("him", him), ("his", his)):
            slots[f"{role}_{slot}"] = word
            slots[f"{role.capitalize()}_{slot}"] = word.capitalize()
        return slots


def story(index: int, seed: int = 0) -> str:
    """Story `index` of the collection with this seed: one to three short paragraphs without a final newline."""
    rng = random.Random(f"{seed}/{index}")  # noqa: S311 - not for cryptography
    hero = Character.draw(rng)
    friend = Character.draw(rng, other=hero)
    look = rng.choice((rng.choice(COLORS), rng.choice(SIZES)))
    toy, food = rng.choice(TOYS), rng.choice(FOODS)
    place, other_place = rng.sample(PLACES, 2)
    slots = {
        **hero.words("hero"),
        **friend.words("friend"),
        "toy": toy,
        "look": look,
        "a_toy": f"a {look} {toy}",
        "food": food,
        "a_food": f"a {food}",
        "place": place,
        "other_place": other_place,
        "hiding": rng.choice(HIDING),
        "weather": rng.choice(WEATHER),
        "time": rng.choice(TIMES),
        "filling": rng.choice(FILLINGS),
        "a_hero": f"a {rng.choice(TRAITS)} {hero.kind}",
        "parent": rng.choice(PARENTS),
        "color": rng.choice(COLORS),
    }
    plot = rng.choice(_TEMPLATES["plot"])
    opening = " ".join(rng.choice(wordings) for wordings in _TEMPLATES["opening"])
    middle = [" ".join(rng.choice(wordings) for wordings in paragraph) for paragraph in plot["paragraphs"]]
    middle[-1] += " " + rng.choice(_TEMPLATES["endings"]) + " " + rng.choice(plot["lessons"])
    text = "\n\n".join([opening, *middle]).format_map(slots)
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def stories(count: int, seed: int = 0, start: int = 0) -> Iterator[str]:
    """Stories `start` to `start + count - 1` of the collection with this seed."""
    return (story(index, seed) for index in range(start, start + count))
