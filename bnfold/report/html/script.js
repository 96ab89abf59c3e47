"use strict";
// Filters, order and links. Without it the page still shows every row; links into closed rows are what it opens.
const addFilters = (form) => {
  const list = form.closest("section").querySelector(".rows");
  const rows = [...list.children];
  const output = form.querySelector("output");
  const place = (row) => Number(/\d+$/.exec(row.id));
  const order = {
    attention: (a, b) => rows.indexOf(a) - rows.indexOf(b),
    graph: (a, b) => place(a) - place(b),
    name: (a, b) => a.querySelector(".name").textContent.localeCompare(b.querySelector(".name").textContent, undefined, { numeric: true }),
  };

  const filter = () => {
    const states = new Set([...form.querySelectorAll("[name=state]:checked")].map((box) => box.value));
    const reason = form.elements.reason ? form.elements.reason.value : "";
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const keep = states.has(row.dataset.state) && (!reason || row.dataset.reason === reason)
        && words.every((word) => row.dataset.words.includes(word));
      row.hidden = !keep;
      shown += keep;
    }
    output.textContent = `${shown} of ${rows.length} shown`;
  };

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.order.addEventListener("change", (event) => list.append(...[...rows].sort(order[event.target.value])));
  for (const button of form.querySelectorAll("[data-open]")) {
    button.addEventListener("click", () => {
      const shown = [...list.children].filter((row) => !row.hidden), most = Number(button.dataset.open);
      for (const row of most ? shown.slice(0, most) : shown) row.open = most > 0;
    });
  }
  filter(); // a browser that comes back to the page restores the form, not what it hid
};

// What is inside of many rows, or of many models, lies packed in the page, and is unpacked when the first one is opened.
const unpacked = new Map();
const unpack = async (packed) => {
  const bytes = Uint8Array.from(atob(packed.textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
};
const fill = async (row) => {
  const index = row.dataset.body, packed = row.closest("section").querySelector(":scope > .packed");
  row.dataset.body = "";
  if (!unpacked.has(packed)) unpacked.set(packed, unpack(packed));
  row.insertAdjacentHTML("beforeend", (await unpacked.get(packed))[index]);
  enliven(row);
};

const makeSortable = (table) => {
  const heads = [...table.tHead.rows[0].cells], text = (row, column) => row.cells[column].textContent.trim();
  heads.forEach((head, column) => head.firstChild.addEventListener("click", () => {
    const turned = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", turned > 0 ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => turned * text(a, column).localeCompare(text(b, column), undefined, { numeric: true }));
    table.tBodies[0].append(...rows);
  }));
};

const enliven = (root) => {
  root.querySelectorAll(".filters").forEach(addFilters);
  root.querySelectorAll(".sortable").forEach(makeSortable);
  for (const row of root.querySelectorAll("[data-body]")) {
    row.addEventListener("toggle", () => { if (row.open && row.dataset.body !== "") fill(row); });
  }
};
enliven(document);

const reveal = () => {
  const name = decodeURIComponent(location.hash.slice(1)), target = name && document.getElementById(name);
  if (!target) {
    const outer = document.getElementById(name.split("-")[0]); // a place in a report that is still packed
    if (!outer || !outer.dataset.body) return;
    fill(outer).then(reveal);
    outer.open = true;
    return;
  }
  target.hidden = false;
  for (let element = target; element; element = element.parentElement) if (element.tagName === "DETAILS") element.open = true;
  target.scrollIntoView();
  target.querySelector("summary")?.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.getAttribute("href") === location.hash) reveal(); // the same link twice makes no hashchange
});
addEventListener("load", reveal); // not earlier: the browser itself moves the focus on its way to the fragment

// A page from the disk has no clipboard in some browsers: there the text is selected in a field and copied.
const copy = async (text) => {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.body.appendChild(document.createElement("textarea"));
  field.value = text;
  field.select();
  document.execCommand("copy");
  field.remove();
};
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await copy(button.dataset.copy);
    button.textContent = "Copied";
  });
}
