// The selected values of each axis. Only trials with these values are shown. The reader selects values by dragging along
// the axis, or the filter in the page's URL contains them. A filter can express more than dragging (e.g. `UNROLL!=4`),
// so its text is kept until the reader drags along its axis.

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

/** Returns true if a value can be part of a filter. Filters are split at commas and bars.
 * @param {string} value */
const plain = (value) => !/[,|]/.test(value);

export class Brushes {
  /** Values that were chosen by dragging, by name of the axis.
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

  /** The filter of the table. */
  get filter() {
    const dragged = [...this.#chosen].filter(([, values]) => values.every(plain));
    return [...this.#written.map((each) => each.text), ...dragged.map(([name, values]) => `${name}=${values.join("|")}`)].join(",");
  }

  /** Returns the conditions on tunables without an axis. They filter only the table.
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
  if (!name) return { name: "", text, keeps: () => true }; // the service reports the error
  const values = given.split("|").map((each) => each.trim());
  return { name, text, keeps: (value) => MEETS[operator === "==" ? "=" : operator](value, values) };
}

/** Groups neighbouring positions. Returns the first and the last position of each group.
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
