// What the theme leaves out for keyboards and screen readers: what scrolls can be reached, buttons beside code are no
// landmark of the page.
const name = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
  for (const wide of document.querySelectorAll("pre > code, p:has(> img)")) {
    if (wide.scrollWidth > wide.clientWidth) wide.tabIndex = 0;
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "none");
};
new MutationObserver(name).observe(document.documentElement, { childList: true, subtree: true });
addEventListener("load", name);
