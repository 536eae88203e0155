"""Is the record what was measured? `python3 -m unittest discover bench/peers`; no peer is needed."""

import math
import re
import tempfile
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
            row("float", "double", 30.0, torch=40.0) | {"again": True},
        ]
        text = record.markdown(
            [
                section(
                    *rows, again=[{"date": "later", "command": "another", "versions": {"onnx-cast": "def"}, "pairs": 1}]
                )
            ]
        )
        self.assertEqual(
            data_rows(text),
            [
                ["float", "double", "30.0", "40.0", "-", "40.0", "0.75 (again)"],
                ["float", "int8", "50.0", "40.0", "5.0*", "-", "10.00"],
            ],
        )
        libraries, _, over_peers, over_memcpy = tables(text)
        self.assertEqual(libraries[2:], [["numpy+ml_dtypes", "2", "7.07", "0"], ["PyTorch", "1", "0.75", "1"]])
        self.assertEqual(over_peers[0], ["from / to", "int8", "uint8", "double"])
        self.assertEqual(over_peers[2:], [["float", "10", "5.00", "0.75"], ["int4", "-", "-", "-"]])
        self.assertEqual(over_memcpy[2:], [["float", "1.25", "1.12", "0.75"], ["int4", "1.25", "-", "-"]])
        self.assertIn("## 16 Mi elements, 1 thread\n", text)
        self.assertIn("**1 slower than the fastest peer**", text)
        self.assertIn("Measured again, and marked so: 1 pair, later, onnx-cast def, `another`.", text)

    def test_scaled_casts_have_a_table_of_their_own(self):
        scaled = row("float", "int4", 30.0, onnxruntime=60.0) | {"scale": "blocks"}
        text = record.markdown([section(row("float", "int8", 50.0, numpy=5.0), scaled)])
        self.assertEqual(
            data_rows(text),
            [
                ["float", "int8", "50.0", "40.0", "5.0", "10.00"],
                ["float", "int4", "blocks", "30.0", "40.0", "60.0", "0.50"],
            ],
        )
        self.assertIn("Scaled casts: 1 pair that a peer has: **1 slower than the fastest peer**", text)
        self.assertEqual(record.pair(scaled), "float:int4:blocks")

    def test_every_table_is_square(self):
        scaled = row("float", "int4", 30.0, torchao=60.0) | {"scale": "axis"}
        text = record.markdown(
            [section(row("float", "int4", 50.0, numpy=5.0, half=1.0), scaled), section(elements=16, threads=2)]
        )
        for rows in tables(text):
            self.assertEqual(len({len(cells) for cells in rows}), 1, rows)
        self.assertIn("## 16 elements, 2 threads\n", text)

    def test_readme_shows_both_sizes(self):
        sections = [
            section(row("float", "float16", 50.0, torch=40.0, numpy=4.0)),
            section(row("float", "float16", 190.0, torch=95.0), elements=1 << 14),
        ]
        rows = data_rows(record.readme(sections))
        self.assertEqual(
            rows[0], ["float", "float16", "50", "1.25", "PyTorch 40.0", "1.25", "190", "4.75", "PyTorch 95.0", "2.00"]
        )
        self.assertEqual(len(rows), len(record.README_PAIRS))
        with self.assertRaisesRegex(ValueError, "16 Mi and 16 Ki"):
            record.readme(sections[:1])

    def test_readme_has_pairs_once(self):
        pairs = element_types.parse_pairs(",".join(record.README_PAIRS))
        self.assertEqual(len(set(pairs)), len(record.README_PAIRS))


class Merging(unittest.TestCase):
    def test_a_whole_run_takes_the_place(self):
        old = section(row("float", "int4", 1.0, numpy=2.0))
        new = section(row("float", "int4", 3.0, numpy=2.0), date="later")
        self.assertEqual(record.merge([old], new), [new])

    def test_pairs_measured_again_are_told(self):
        old = section(row("float", "int4", 1.0, numpy=2.0), row("float", "int8", 5.0, numpy=2.0))
        new = section(row("float", "int4", 3.0, numpy=2.0), date="later", command="another")
        [merged] = record.merge([old], new)
        self.assertEqual(merged["rows"][0], new["rows"][0] | {"again": True})
        self.assertEqual(merged["rows"][1], old["rows"][1])
        self.assertEqual(merged["date"], old["date"])
        told = {"date": "later", "command": "another", "versions": {"onnx-cast": "abc"}, "pairs": 1}
        self.assertEqual(merged["again"], [told])

    def test_pairs_added_are_told_too(self):
        old = section(row("float", "int4", 1.0, numpy=2.0))
        new = section(row("float", "int4", 3.0, numpy=2.0) | {"scale": "axis"}, date="later", command="another")
        [merged] = record.merge([old], new)
        self.assertEqual(merged["rows"][1], new["rows"][0] | {"again": False})
        self.assertEqual((merged["again"][0]["pairs"], merged["again"][0]["added"]), (0, 1))
        self.assertIn("Added: 1 pair, later, onnx-cast abc, `another`.", record.markdown([merged]))
        [merged] = record.merge([old], new | {"machine": "another machine"})
        self.assertIn("Added: 1 pair, later, another machine, onnx-cast abc, `another`.", record.markdown([merged]))

    def test_sections_are_apart(self):
        sections = []
        for elements, threads in ((1 << 14, 1), (1 << 24, 2), (1 << 24, 1)):
            sections = record.merge(sections, section(row("float", "int4", 1.0), elements=elements, threads=threads))
        self.assertEqual([record.key(one) for one in sections], [(1 << 24, 1), (1 << 24, 2), (1 << 14, 1)])

    def test_what_is_written_is_read(self):
        sections = [section(row("float", "int4", 1.0, numpy=2.0), row("int4", "float", 1.0)), section(elements=16)]
        with tempfile.TemporaryDirectory() as folder:
            figures, page = Path(folder) / "cache" / "peers.json", Path(folder) / "peers.md"
            record.write(figures, page, sections)
            self.assertEqual(record.read(figures), sections)
            self.assertEqual(page.read_text(), record.markdown(sections))
            self.assertEqual(record.read(Path(folder) / "none.json"), [])


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
