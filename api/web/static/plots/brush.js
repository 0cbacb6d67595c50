// Which values of each axis are kept: those that were dragged over, or those of the filter in the page's address. The filter can
// say more than dragging can (`BLOCK_N>=256`, `UNROLL!=4`, values apart); it stays as written until its axis is dragged over.

/** @typedef {{ name: string, values: string[] }} Axis */
/** @typedef {{ name: string, text: string, keeps: (value: string) => boolean }} Condition */

const CONDITION = /^\s*(\w+)\s*(!=|<=|>=|==|=|<|>)\s*(\S.*?)\s*$/;
/** @type {Record<string, (value: string, given: string[]) => boolean>} */
const MEETS = {
  "=": (value, given) => given.some((each) => same(value, each)),
  "!=": (value, given) => !given.some((each) => same(value, each)),
  "<": (value, [given]) => Number(value) < Number(given),
  "<=": (value, [given]) => Number(value) <= Number(given),
  ">": (value, [given]) => Number(value) > Number(given),
  ">=": (value, [given]) => Number(value) >= Number(given),
};

/** @param {string} value
 * @param {string} given */
const same = (value, given) => value === given || (given !== "" && Number(value) === Number(given));

/** Returns whether a value can be written in a filter, which is split at commas and bars.
 * @param {string} value */
const plain = (value) => !/[,|]/.test(value);

export class Brushes {
  /** Name of an axis → the values that were dragged over.
   * @type {Map<string, string[]>} */
  #chosen = new Map();
  /** @type {Condition[]} */
  #written;

  /** @param {string} filter */
  constructor(filter) {
    this.#written = filter.split(",").map((text) => text.trim()).filter(Boolean).map(condition);
  }

  /** @param {string} name of an axis */
  touches(name) {
    return this.#chosen.has(name) || this.#written.some((each) => each.name === name);
  }

  /** @param {string} name of an axis
   * @param {string} value */
  keeps(name, value) {
    const chosen = this.#chosen.get(name);
    if (chosen) return chosen.includes(value);
    return this.#written.every((each) => each.name !== name || each.keeps(value));
  }

  /** Returns the positions on an axis that are kept.
   * @param {Axis} axis */
  places(axis) {
    return axis.values.map((value, place) => (this.keeps(axis.name, value) ? place : -1)).filter((place) => place >= 0);
  }

  /** Keeps the values between two positions on an axis.
   * @param {Axis} axis
   * @param {number[]} positions */
  drag(axis, [first, last]) {
    this.clear(axis.name);
    this.#chosen.set(axis.name, axis.values.slice(first, last + 1));
  }

  /** @param {string} name of an axis */
  clear(name) {
    this.#chosen.delete(name);
    this.#written = this.#written.filter((each) => each.name !== name);
  }

  clearAll() {
    this.#chosen.clear();
    this.#written = [];
  }

  /** What the table is filtered by. */
  get filter() {
    const dragged = [...this.#chosen].filter(([, values]) => values.every(plain));
    return [...this.#written.map((each) => each.text), ...dragged.map(([name, values]) => `${name}=${values.join("|")}`)].join(",");
  }

  /** Returns the conditions that no axis can show: they filter only the table.
   * @param {Axis[]} axes */
  withoutAxis(axes) {
    const names = axes.map((axis) => axis.name);
    return this.#written.filter((each) => !names.includes(each.name)).map((each) => each.text);
  }
}

/** @param {string} text
 * @returns {Condition} */
function condition(text) {
  const [, name, operator, given] = CONDITION.exec(text) ?? [];
  if (!name) return { name: "", text, keeps: () => true }; // the service says what is wrong with it
  const values = given.split("|").map((each) => each.trim());
  return { name, text, keeps: (value) => MEETS[operator === "==" ? "=" : operator](value, values) };
}

/** Returns neighbouring positions as pairs of the first and the last.
 * @param {number[]} places */
export function runs(places) {
  /** @type {[number, number][]} */
  const found = [];
  for (const place of places) {
    const run = found.at(-1);
    if (run && run[1] === place - 1) run[1] = place;
    else found.push([place, place]);
  }
  return found;
}
