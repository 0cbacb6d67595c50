// Which values of each axis are kept: dragged over, or said by the filter in the page's address, which may say more than a
// drag could (`BLOCK_N>=256`, `UNROLL!=4`, values apart). What was not dragged since stays as it was written.

const CONDITION = /^\s*(\w+)\s*(!=|<=|>=|==|=|<|>)\s*(\S.*?)\s*$/;
const MEETS = {
  "=": (value, given) => given.some((each) => same(value, each)),
  "!=": (value, given) => !given.some((each) => same(value, each)),
  "<": (value, [given]) => Number(value) < Number(given),
  "<=": (value, [given]) => Number(value) <= Number(given),
  ">": (value, [given]) => Number(value) > Number(given),
  ">=": (value, [given]) => Number(value) >= Number(given),
};

const same = (value, given) => value === given || (given !== "" && Number(value) === Number(given));
const plain = (value) => !/[,|]/.test(value); // others cannot stand in a filter, which is split at commas and bars

export class Brushes {
  constructor(filter) {
    this.chosen = new Map(); // axis name -> the values that were dragged over
    this.written = filter.split(",").map((text) => text.trim()).filter(Boolean).map(condition);
  }

  touches(name) {
    return this.chosen.has(name) || this.written.some((each) => each.name === name);
  }

  keeps(name, value) {
    if (this.chosen.has(name)) return this.chosen.get(name).includes(value);
    return this.written.every((each) => each.name !== name || each.keeps(value));
  }

  // The places of an axis that are kept.
  places(axis) {
    return axis.values.map((value, place) => (this.keeps(axis.name, value) ? place : -1)).filter((place) => place >= 0);
  }

  drag(axis, [first, last]) {
    this.clear(axis.name);
    this.chosen.set(axis.name, axis.values.slice(first, last + 1));
  }

  clear(name) {
    this.chosen.delete(name);
    this.written = this.written.filter((each) => each.name !== name);
  }

  clearAll() {
    this.chosen.clear();
    this.written = [];
  }

  // What the table below is filtered by.
  get filter() {
    const dragged = [...this.chosen].filter(([, values]) => values.every(plain));
    return [...this.written.map((each) => each.text), ...dragged.map(([name, values]) => `${name}=${values.join("|")}`)].join(",");
  }

  // What no axis of these can show: it holds in the table alone.
  beside(axes) {
    const names = axes.map((axis) => axis.name);
    return this.written.filter((each) => !names.includes(each.name)).map((each) => each.text);
  }
}

function condition(text) {
  const [, name, operator, given] = CONDITION.exec(text) ?? [];
  if (!name) return { name: "", text, keeps: () => true }; // the service says what is wrong with it
  const values = given.split("|").map((each) => each.trim());
  return { name, text, keeps: (value) => MEETS[operator === "==" ? "=" : operator](value, values) };
}

// Neighbouring places as [first, last].
export function runs(places) {
  const found = [];
  for (const place of places) {
    if (found.length && found.at(-1)[1] === place - 1) found.at(-1)[1] = place;
    else found.push([place, place]);
  }
  return found;
}
