// The element <ray-table>, which shows a ColumnDataSource of Bokeh as a table of HTML.
//
// Bokeh's own table cuts texts at one line and cannot give a failed row a colour. This one wraps texts,
// shows a row as a card in a narrow window, opens a row in full, and keeps what the user does over updates.
// The words that a user searches for and the column by which rows are sorted go to the scheduler as the
// source's tags, because only the scheduler has all rows. All values are set as text, never as HTML.

const RAY_TABLE_CSS = `
  :host { display: block; font: 13px/1.35 Helvetica, Arial, sans-serif; color: #111; }
  input[type=search] { font: inherit; padding: 3px 6px; margin: 4px 0; width: 22em; max-width: 100%;
    box-sizing: border-box; border: 1px solid #aaa; border-radius: 4px; background: white; }
  label { display: inline-block; margin-right: 8px; }
  table { border-collapse: collapse; max-width: 100%; }
  h2 { font-size: 14px; margin: 10px 0 2px; }
  th { text-align: left; vertical-align: bottom; padding: 0; border-bottom: 1px solid #999; }
  th button { all: unset; cursor: pointer; display: block; padding: 4px 6px; font-weight: bold;
    word-break: keep-all; }
  th button:focus-visible, tr:focus-visible, a:focus-visible { outline: 2px solid #0072b2; }
  [hidden] { display: none !important; }
  td { padding: 4px 6px; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
  tr.row { cursor: pointer; }
  tr.row:hover { background: #f2f6fa; }
  tr.failed { background: #fdf0e8; }
  tr.open { background: #e3eef8; }
  .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
  th.number { white-space: normal; }
  .nowrap { white-space: nowrap; }
  .zero { color: #888; }
  .bad { color: #b34700; font-weight: bold; }
  .text { overflow-wrap: anywhere; }
  .link { min-width: 5.5em; }
  .link a { display: inline-block; margin-right: 4px; }
  .text > span { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; overflow: hidden; }
  .id > span { font-family: monospace; white-space: nowrap; }
  a { color: #0060a0; }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 12px; margin: 4px 0; cursor: auto; }
  dt { color: #555; }
  dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
  dd.trace { font: 12px/1.4 monospace; }
  @media (max-width: 640px) {
    table, tbody, tr { display: block; }
    thead { display: none; }
    tr.row { border-bottom: 1px solid #bbb; padding: 6px 0; }
    td { display: flex; gap: 8px; border: 0; padding: 1px 4px; text-align: left; white-space: normal;
      min-width: 0 !important; }
    td > span { min-width: 0; }
    td[data-title]::before { content: attr(data-title); flex: 0 0 8em; color: #555; text-align: left;
      white-space: normal; font-weight: normal; }
    td.empty, td.zero { display: none; }
    dl { display: block; }
  }
`;

// Marks of states differ by shape and by colour. The colours are those of Okabe and Ito, which also people
// who do not see all colours tell apart; a dark page inverts light and dark, so the orange is a darker one.
const RAY_FAILED = ["\u25a0", "#d55e00"], RAY_WAITS = ["\u25b2", "#b87700"], RAY_GOOD = ["\u25cf", "#009e73"];
const RAY_ENDED = ["\u25cb", "#767676"];  // a program or a user has ended it
const RAY_MARKS = {
  DEAD: RAY_FAILED, ERROR: RAY_FAILED, FAILED: RAY_FAILED, LOST: RAY_FAILED, RESTARTING: RAY_FAILED,
  PENDING: RAY_WAITS, PENDING_CREATION: RAY_WAITS, RESERVED: RAY_WAITS, RESCHEDULING: RAY_WAITS,
  PAUSED: RAY_WAITS, DRAINING: RAY_WAITS, ALIVE: RAY_GOOD, READY: RAY_GOOD, CREATED: RAY_GOOD, RUNNING: RAY_GOOD, FINISHED: RAY_GOOD,
  TERMINATED: RAY_GOOD, SUCCEEDED: RAY_GOOD,
};
const RAY_SEARCH_MS = 250, RAY_CHARACTER_PX = 7;

// Columns that are left out as long as they are 0 in all rows: a narrower table is read sooner.
const RAY_HIDDEN_AT_ZERO = ["failed", "restarts", "attempt"];

// The word of the page's language; RAY_WORDS is before this script.
const raySay = (text) => RAY_WORDS[text] || text;

// What drivers and processes are called where a text names several, each with its number.
const RAY_CALLERS = /(^|, )(driver of job|process of job|driver|process)(?= )/g;

function rayBytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let amount = value, unit = 0;
  while (amount >= 1024 && unit < 4) { amount /= 1024; unit += 1; }
  return value < 0 ? "" : `${amount.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

function raySeconds(value) {
  if (value >= 86400) return `${(value / 86400).toFixed(1)} d`;
  if (value >= 3600) return `${(value / 3600).toFixed(1)} h`;
  if (value >= 120) return `${(value / 60).toFixed(1)} min`;
  const [factor, unit] = value >= 1 || value === 0 ? [1, "s"] : value >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  const number = factor * value;
  return `${number.toFixed(number < 10 && number > 0 ? 1 : 0)} ${unit}`;
}

// The local time of the browser, with its zone where there is room for it.
function rayTime(value, whole) {
  if (!value) return "";
  const time = new Date(1000 * value);
  const two = (number) => String(number).padStart(2, "0");
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":");
  const day = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  if (!whole) return time.toDateString() === new Date().toDateString() ? clock : `${day} ${clock}`;
  return `${day} ${clock} ${time.toTimeString().split(" ").slice(1).join(" ")}`;
}

function rayText(value, form, whole) {
  if (value === null || value === undefined || value === "") return "";
  if (form === "bytes") return rayBytes(value);
  if (form === "seconds") return raySeconds(value);
  if (form === "time") return rayTime(value, whole);
  if (form === "word") return raySay(value);
  if (form === "callers") return value.replace(RAY_CALLERS, (all, before, word) => before + raySay(word));
  if (!form.startsWith("0")) return String(value);
  const digits = (form.split(".")[1] || "").length;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// The least pixels of a cell: a word is broken only where it is wider than the column is meant to be.
function rayLeastWidth(text, width) {
  const longest = Math.max(0, ...text.split(/\s/).map((word) => word.length));
  return Math.round(Math.min(width, Math.max(0.6 * width, RAY_CHARACTER_PX * longest)));
}

// What of each id is enough to tell it from the others: equal beginnings are left out.
function rayShortIds(ids) {
  const whole = [...new Set(ids)], first = whole[0] || "";
  let start = 0, end = 0;
  if (whole.length > 1) {
    while (whole.every((id) => id[start] === first[start])) start += 1;
    while (whole.every((id) => id.at(-1 - end) === first.at(-1 - end))) end += 1;
  }
  start = start < 8 ? 0 : start;
  // An object's id ends with the number of the result, which is 1 for most.
  const cutEnd = (id) => end < 8 || id.length <= start + end + 8 ? id : id.slice(0, -end);
  const tail = end < 8 ? "" : "\u2026", different = whole.map(cutEnd);
  const isUnique = (cut) => new Set(different.map(cut)).size === different.length;
  for (let length = 8; length <= 64; length++) {
    const begin = (id) => id.slice(start, start + length);
    if (isUnique(begin)) return (id) => (start ? "\u2026" : "") + begin(cutEnd(id));
    // Ids of one process may differ only at their ends.
    const ends = (id) => `${id.slice(0, 4)}\u2026${id.slice(4 - length)}`;
    if (isUnique(ends)) return (id) => ends(cutEnd(id)) + tail;
  }
  return (id) => id;
}

// It tells the scheduler the clock of the browser, for times that stand among other text.
class RayZone extends HTMLElement {
  connectedCallback() {
    const model = Bokeh.documents.map((each) => each.get_model_by_name("zone")).find(Boolean);
    const now = new Date(), named = { timeZoneName: "short", hour: "numeric" };
    const parts = new Intl.DateTimeFormat("en", named).formatToParts(now);
    const zone = parts.find((each) => each.type === "timeZoneName").value;
    model.tags = [-now.getTimezoneOffset(), zone];
  }
}

class RayTable extends HTMLElement {
  connectedCallback() {
    const about = JSON.parse(this.dataset.about);
    Object.assign(this, about, { openKey: null, rows: new Map(), wish: {} });
    if (!this.shadowRoot) this.attachShadow({ mode: "open" });
    this.shadowRoot.innerHTML = `<style>${RAY_TABLE_CSS}</style><h2></h2><input type="search">
      <label><input type="checkbox"> <span></span></label>
      <table><thead><tr></tr></thead><tbody></tbody></table>`;
    this.input = this.shadowRoot.querySelector("input");
    this.internal = this.shadowRoot.querySelector("[type=checkbox]");
    this.internal.parentNode.hidden = !this.hides;
    this.internal.addEventListener("change", () => this.ask({ internal: this.internal.checked }));
    this.body = this.shadowRoot.querySelector("tbody");
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask({}), RAY_SEARCH_MS);
    });
    for (const column of this.columns) column.title = raySay(column.title);
    this.shadowRoot.querySelector("h2").textContent = raySay(this.heading);
    for (const name of Object.keys(this.words)) this.words[name] = raySay(this.words[name]);
    this.internal.nextElementSibling.textContent = this.words.internal;
    this.input.placeholder = this.input.ariaLabel = this.words.search;
    // All links of a row are in one cell.
    this.links = this.columns.filter((column) => column.form === "link");
    this.shown = this.columns.filter((column) => column.form !== "detail"
      && (column.form !== "link" || column === this.links[0]));
    for (const column of this.shown) this.addHead(column);
    this.source = Bokeh.documents.map((each) => each.get_model_by_name(this.table)).find(Boolean);
    this.onData = () => this.render();
    this.onTags = () => this.follow();
    this.source.properties.data.change.connect(this.onData);
    this.source.properties.tags.change.connect(this.onTags);
    this.follow();
    this.render();
  }

  disconnectedCallback() {
    this.source.properties.data.change.disconnect(this.onData);
    this.source.properties.tags.change.disconnect(this.onTags);
  }

  addHead(column) {
    const head = document.createElement("th"), button = document.createElement("button");
    button.textContent = this.headOf(column);
    head.dataset.field = column.field;
    head.classList.toggle("number", this.isNumber(column));
    button.addEventListener("click", () => {
      const is_again = this.wish.sort === column.field;
      this.ask({ sort: column.field, down: is_again ? !this.wish.down : this.isNumber(column) });
    });
    head.append(button);
    this.shadowRoot.querySelector("thead tr").append(head);
  }

  headOf(column) {
    return column.form === "link" && this.links.length > 1 ? this.words.links : column.title;
  }

  isNumber(column) {
    return column.form.startsWith("0") || column.form === "bytes" || column.form === "seconds";
  }

  wraps(column) {
    return column.form === "text" || column.form === "callers";
  }

  ask(change) {
    clearTimeout(this.timer);  // what was typed a moment ago is asked for now
    this.source.tags = [{ ...this.wish, open: false, search: this.input.value, ...change }];
  }

  follow() {
    this.wish = this.source.tags[0] || {};
    this.internal.checked = Boolean(this.wish.internal);
    if (document.activeElement !== this && this.input.value !== (this.wish.search || "")) {
      this.input.value = this.wish.search || "";
    }
    for (const head of this.shadowRoot.querySelectorAll("th")) {
      const is_sorted = head.dataset.field === this.wish.sort;
      head.ariaSort = is_sorted ? (this.wish.down ? "descending" : "ascending") : "none";
      const title = this.headOf(this.shown.find((each) => each.field === head.dataset.field));
      head.firstChild.textContent = title + (is_sorted ? (this.wish.down ? " \u2193" : " \u2191") : "");
    }
  }

  render() {
    const data = this.source.data, count = data[this.columns[0].field].length;
    this.input.hidden = count < 2 && !this.input.value;
    this.shadowRoot.querySelector("table").hidden = !count;
    this.shadowRoot.querySelector("h2").hidden = !this.heading;
    this.short = {};
    for (const column of this.columns) {
      if (column.form === "id") this.short[column.field] = rayShortIds(Array.from(data[column.field]));
    }
    const kept = new Map();
    let next = this.body.firstChild;
    const place = (element) => {
      if (element === next) next = next.nextSibling;
      else this.body.insertBefore(element, next);
    };
    for (let index = 0; index < count; index++) {
      const row = {};
      for (const field of Object.keys(data)) row[field] = data[field][index];
      let key = JSON.stringify(this.identity.map((field) => row[field]));
      while (kept.has(key)) key += "+";
      if (this.wish.open && count === 1 && this.openKey === null) this.openKey = key;
      const shown = this.rows.get(key) || this.newRow(key);
      kept.set(key, shown);
      this.fill(shown, row);
      place(shown.element);
      const is_open = key === this.openKey;
      shown.element.classList.toggle("open", is_open);
      shown.element.ariaExpanded = String(is_open);
      if (is_open) {
        this.fillDetails(shown, row);
        place(shown.details);
      } else shown.details.remove();
    }
    this.hideEmptyColumns(kept);
    while (next) {
      const last = next;
      next = next.nextSibling;
      last.remove();
    }
    this.rows = kept;
  }

  hideEmptyColumns(rows) {
    const heads = this.shadowRoot.querySelectorAll("th");
    this.shown.forEach((column, index) => {
      const nothing = RAY_HIDDEN_AT_ZERO.includes(column.field) ? ["", "0"] : [""];
      const isEmpty = [...rows.values()].every((shown) => nothing.includes(shown.values[index]));
      heads[index].hidden = isEmpty;
      for (const shown of rows.values()) shown.cells[index].hidden = isEmpty;
    });
  }

  newRow(key) {
    const element = document.createElement("tr"), details = document.createElement("tr");
    element.className = "row";
    element.tabIndex = 0;
    const toggle = () => {
      this.openKey = this.openKey === key ? null : key;
      this.render();
    };
    element.addEventListener("click", (event) => {
      const is_copying = String(window.getSelection());
      if (!is_copying && !event.target.closest("a")) toggle();
    });
    element.addEventListener("keydown", (event) => {
      if (event.target !== element || !["Enter", " "].includes(event.key)) return;
      event.preventDefault();  // a space would scroll the page
      toggle();
    });
    const cells = this.shown.map((column) => {
      const cell = document.createElement("td");
      cell.dataset.title = this.headOf(column);
      element.append(cell);
      return cell;
    });
    const whole = document.createElement("td");
    whole.colSpan = this.shown.length;
    details.append(whole);
    return { element, details, whole, cells, values: [] };
  }

  fill(shown, row) {
    shown.element.classList.toggle("failed", Boolean(row[this.failed]));
    this.shown.forEach((column, index) => {
      const value = row[column.field], cell = shown.cells[index];
      const text = column.form === "link" ? this.links.map((each) => row[each.field] || "").join("")
        : column.form === "id" && value ? this.short[column.field](value)
        : rayText(value, column.form, false);
      if (shown.values[index] === text) return;
      shown.values[index] = text;
      cell.className = this.isNumber(column) ? "number" : column.form === "id" ? "id"
        : this.wraps(column) ? "text" : column.form === "link" ? "link" : "nowrap";
      if (this.wraps(column)) cell.style.minWidth = `${rayLeastWidth(text, column.width)}px`;
      cell.classList.toggle("empty", text === "");
      cell.classList.toggle("zero", value === 0 && this.isNumber(column));
      cell.classList.toggle("bad", column.field === "failed" && value > 0);
      cell.replaceChildren(...this.parts(column, value, text, row));
    });
  }

  parts(column, value, text, row) {
    const span = document.createElement("span");
    if (column.form === "link") {
      const given = this.links.filter((each) => row[each.field]);
      span.append(...given.flatMap((each) => [this.link(row[each.field], each.title), " "]));
      return [span];
    }
    span.textContent = text;
    if (this.wraps(column) || column.form === "id") span.title = value;
    if (column.form === "time") span.title = rayTime(value, true);
    if (column.form !== "state") return [span];
    const found = RAY_MARKS[text.toUpperCase()] || ["", ""], mark = document.createElement("span");
    const [sign, colour] = found === RAY_FAILED && row[this.expected] ? RAY_ENDED : found;
    mark.textContent = sign && `${sign} `;
    mark.style.color = colour;
    return [mark, span];
  }

  link(address, text) {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = text;
    return link;
  }

  fillDetails(shown, row) {
    const list = document.createElement("dl");
    const add = (title, ...content) => {
      const name = document.createElement("dt"), value = document.createElement("dd");
      name.textContent = title;
      value.append(...content);
      list.append(name, value);
      return value;
    };
    for (const column of this.columns) {
      const value = row[column.field], text = rayText(value, column.form, true);
      if (!text) continue;
      if (column.form === "link") add(column.title, this.link(value, column.title));
      else add(column.title, text).classList.toggle("trace", column.form === "detail");
    }
    if (this.page) {
      const exact = this.identity.map((field) => `${this.table}.${field}=${encodeURIComponent(row[field] ?? "")}`);
      add(this.words.address, this.link(`individual-ray-${this.page}?${exact.join("&")}`, this.words.row));
    }
    const before = shown.whole.firstChild;
    if (before && before.textContent === list.textContent) return;  // what is selected stays so
    shown.whole.replaceChildren(list);
  }
}

customElements.define("ray-zone", RayZone);
customElements.define("ray-table", RayTable);
