"""Is the record what was measured? `python3 -m unittest discover bench/peers`; no peer is needed."""

import math
import re
import unittest
from pathlib import Path

import element_types
import record

ROOT = Path(__file__).resolve().parent.parent.parent


def row(source, target, ours, **peers):
    return {"from": source, "to": target, "ours": ours, "memcpy": 40.0, "peers": peers}


def section(*rows, elements=1 << 24, threads=1, **more):
    about = {
        "date": "2026-11-21",
        "machine": "a machine",
        "command": "a command",
        "isa": "avx512",
        "versions": {"onnx-cast": "abc"},
    }
    return {"elements": elements, "threads": threads, **about, **more, "rows": list(rows)}


def tables(text):
    """The tables in a text, as rows of cells."""
    found = (table.splitlines() for table in re.findall(r"(?:^\|.*\n?)+", text, re.M))
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in lines] for lines in found]


def data_rows(text):
    """The rows of the tables that begin with a pair, without their headers."""
    return [row for header, _, *rows in tables(text) if header[:2] == ["from", "to"] for row in rows]


class Rows(unittest.TestCase):
    def test_the_fastest_peer_counts(self):
        one = row("float", "int4", 50.0, numpy=4.0, torch=25.0)
        self.assertEqual((record.fastest(one), record.advantage(one), record.loses(one)), ("torch", 2.0, False))
        self.assertTrue(record.loses(row("float", "int4", 9.4, torch=10.0)))
        self.assertFalse(record.loses(row("float", "int4", 9.6, torch=10.0)))
        alone = row("float", "int4", 50.0)
        self.assertEqual((record.fastest(alone), record.advantage(alone), record.loses(alone)), (None, math.inf, False))

    def test_means_are_geometric(self):
        text = record.summary([row("float", "int4", 40.0, numpy=10.0), row("int4", "float", 10.0, numpy=10.0)])
        self.assertIn("2 pairs that a peer has: **0 slower", text)
        self.assertIn("fastest peer's **2.00**, over memcpy's 0.50.", text)


class Markdown(unittest.TestCase):
    def test_losing_rows_come_first_and_stay(self):
        rows = [
            row("float", "int8", 50.0, numpy=5.0) | {"differs": {"numpy": 0.5}},
            row("int4", "int8", 50.0),
            row("float", "uint8", 45.0, numpy=9.0),
            row("float", "double", 30.0, torch=40.0),
            row("float", "int4", 30.0, onnxruntime=60.0) | {"scale": "blocks"},
        ]
        text = "\n".join(record.markdown([section(*rows), section(elements=16, threads=2)]))
        self.assertEqual(
            data_rows(text),
            [
                ["float", "double", "30.0", "40.0", "-", "40.0", "0.75"],
                ["float", "int8", "50.0", "40.0", "5.0*", "-", "10.00"],
                ["float", "int4", "blocks", "30.0", "40.0", "60.0", "0.50"],
            ],
        )
        libraries, _, over_peers, _ = tables(text)
        self.assertEqual(libraries[2:], [["numpy+ml_dtypes", "2", "7.07", "0"], ["PyTorch", "1", "0.75", "1"]])
        self.assertEqual(over_peers[0], ["from / to", "int8", "uint8", "double"])
        self.assertEqual(over_peers[2:], [["float", "10", "5.00", "0.75"], ["int4", "-", "-", "-"]])
        self.assertIn("## 16 Mi elements, 1 thread\n", text)
        self.assertIn("## 16 elements, 2 threads\n", text)
        self.assertIn("3 pairs that a peer has: **1 slower than the fastest peer**", text)
        self.assertIn("Scaled casts: 1 pair that a peer has: **1 slower than the fastest peer**", text)
        for cells in tables(text):
            self.assertEqual(len({len(line) for line in cells}), 1, cells)

    def test_readme_shows_both_sizes(self):
        sections = [
            section(row("float", "float16", 50.0, torch=40.0, numpy=4.0)),
            section(row("float", "float16", 190.0, torch=95.0), elements=1 << 14),
        ]
        rows = data_rows(record.readme(sections))
        self.assertEqual(
            rows[0], ["float", "float16", "50", "1.25", "PyTorch 40.0", "1.25", "190", "4.75", "PyTorch 95.0", "2.00"]
        )
        pairs = element_types.parse_pairs(",".join(record.README_PAIRS))
        self.assertEqual((len(set(pairs)), len(rows)), (len(record.README_PAIRS), len(record.README_PAIRS)))


class Types(unittest.TestCase):
    def test_they_are_those_of_the_page(self):
        # The table of that page is the library's, by another test.
        lines = (ROOT / "docs" / "types.md").read_text().splitlines()
        cells = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in lines
            if re.match(r"\| \w+ \| \d+ \|", line)
        ]
        known = {name: (int(number), int(bits)) for name, number, bits, *_ in cells if bits.isdigit()}
        numeric = {name: facts for name, facts in known.items() if not name.startswith("complex")}
        self.assertEqual({kind.name: (kind.number, kind.bits) for kind in element_types.TYPES.values()}, numeric)

    def test_pairs(self):
        casts = len(element_types.TYPES) ** 2
        self.assertEqual(len(element_types.parse_pairs("casts")), casts)
        everything = element_types.parse_pairs("all")
        self.assertEqual(len(everything), casts + len(element_types.SCALED))
        self.assertEqual(len(set(everything)), len(everything))
        [pair] = element_types.parse_pairs("float:int4")
        self.assertEqual((pair.source.bytes(3), pair.target.bytes(3), pair.scale), (12, 2, ""))
        for wrong in ("", "float", "float:float17", "float:int4,", "a:b:c", "float:int4:row", "float:bool:axis"):
            with self.assertRaises(ValueError, msg=wrong):
                element_types.parse_pairs(wrong)

    def test_scaled_pairs(self):
        for name, elements, quantizes, shape, scales in (
            ("float:int8:tensor", 4096, True, (4, 1024), ()),
            ("int8:float:axis", 4096, False, (4, 1024), (4,)),
            ("float:int4:blocks", 4096, True, (4, 1024), (4, 32)),
            ("float4e2m1:bfloat16:mxfp4", 64, False, (1, 64), (1, 2)),
            ("float:float4e2m1:nvfp4", 96, True, (3, 32), (3, 2)),
        ):
            with self.subTest(name):
                [pair] = element_types.parse_pairs(name)
                self.assertEqual(pair.quantizes, quantizes)
                self.assertEqual((pair.shape(elements), pair.scales(elements)), (shape, scales))


if __name__ == "__main__":
    unittest.main()
