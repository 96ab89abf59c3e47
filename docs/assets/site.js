// What the theme makes in the browser, told to keyboards and screen readers: tables that scroll, and buttons beside code.
const name = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap, .notebook-output")) table.tabIndex = 0;
  for (const code of document.querySelectorAll("pre > code")) if (code.scrollWidth > code.clientWidth) code.tabIndex = 0;
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "group");
};
new MutationObserver(name).observe(document.documentElement, { childList: true, subtree: true });
addEventListener("load", name);
