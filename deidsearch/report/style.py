"""The report's style sheet: light and dark, from a phone's width up, nothing loaded."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --page: #fbfcfd; --card: #ffffff; --ink: #1c2733; --muted: #5a6875; --line: #dde3e9;
  --model: #0072b2; --dictionary: #c24e00; --gold: #00805c; --bar: #9fb0bf; --mark: #e8f1f8;
  --warn: #8a4b00; --warn-page: #fff4e2;
  --series-0: #c78500; --series-1: #009e73; --series-2: #b8578c; --series-3: #7a5cc7;
  --series-4: #8a6d00; --series-5: #4d4d4e; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12181f; --card: #19212a; --ink: #e7edf3; --muted: #a3b1be; --line: #303c48;
  --model: #5ab8f0; --dictionary: #ff9a4d; --gold: #3fd0a2; --bar: #5d6f80; --mark: #1f3344;
  --warn: #ffca80; --warn-page: #33260f;
  --series-0: #f0b030; --series-1: #2fc798; --series-2: #e79cc4; --series-3: #a991f0;
  --series-4: #c9a227; --series-5: #b8b8ba; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial,
  sans-serif; -webkit-text-size-adjust: 100%; }
main, header, footer { max-width: 58rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.25rem; } footer { padding-bottom: 3rem; color: var(--muted); }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .35rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .6rem 0; max-width: 44rem; } small, .small { font-size: .84rem; }
.state, .note, figcaption { color: var(--muted); } .note, figcaption { font-size: .9rem; }
.answer { font-size: 1.15rem; max-width: 46rem; }
.warn { background: var(--warn-page); color: var(--warn); padding: .6rem .9rem;
  border-radius: .5rem; max-width: none; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin: 1.25rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.7rem; line-height: 1.25; font-weight: 650;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.tile span { color: var(--muted); font-size: .88rem; display: block; }
.tile.model b { color: var(--model); } .tile.dictionary b { color: var(--dictionary); }
.undefined { color: var(--muted); font-style: italic; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; display: block; }
figure svg.narrow { display: none; }
.scroll { overflow-x: auto; margin: .2rem 0 1rem; border-radius: .3rem; }
.scroll:focus-visible { outline: 2px solid var(--model); }
table { border-collapse: collapse; min-width: min(100%, 26rem); font-size: .94rem; }
.caption { color: var(--muted); margin: 1.4rem 0 .2rem; font-size: .9rem; }
th, td { padding: .38rem .9rem .38rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-weight: 600; font-size: .86rem; vertical-align: bottom; }
tbody th { font-weight: 500; } tr > :last-child { padding-right: .3rem; }
.num { text-align: right; font-variant-numeric: tabular-nums; }
td.num { white-space: nowrap; }
.bounds { color: var(--muted); display: block; line-height: 1.25; }
tr.marked > * { background: var(--mark); }
tr > th:first-child, tr > td:first-child { padding-left: .4rem; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--model); padding: .3rem 0; }
code { font: .88em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  overflow-wrap: anywhere; }
td code, th code { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .94rem; }
dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 640px) {
  main, header, footer { padding-left: 1rem; padding-right: 1rem; }
  header { padding-top: 1.25rem; } h1 { font-size: 1.4rem; } .answer { font-size: 1.05rem; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .5rem; } .tile { padding: .6rem .75rem; }
  .tile b { font-size: 1.35rem; }
  figure svg.wide { display: none; } figure svg.narrow { display: block; margin: 0 auto; }
  th, td { padding-right: .6rem; } table { font-size: .86rem; min-width: 100%; }
  thead th { font-size: .8rem; line-height: 1.3; } .bounds { font-size: .76rem; }
  dl { grid-template-columns: 1fr; gap: 0 0; } dd { margin-bottom: .5rem; } }
@media print { body { background: #fff; } details > * { display: block; }
  section { break-inside: avoid; } }
""".strip()
