// Takes the new contents of the page when more was recorded. What is unfolded, chosen and typed stays.
"use strict";
(() => {
  const PERIOD = 2000;
  let shown = document.body.dataset.version;

  // A fold by the nearest element with an id, and its number there.
  const folds = () => [...document.querySelectorAll("details")].map(each => {
    const home = each.closest("[id]") ?? document.body;
    return [`${home.id} ${[...home.querySelectorAll("details")].indexOf(each)}`, each];
  });

  // Whoever selects text or has a list open would lose it.
  const isInUse = () => ["SELECT", "INPUT"].includes(document.activeElement?.tagName) || !getSelection().isCollapsed;

  function take(text) {
    const made = new DOMParser().parseFromString(text, "text/html");
    const before = new Map(folds().map(([key, each]) => [key, each.open]));
    const [left, top] = [scrollX, scrollY];
    for (const name of ["nav", "main"]) document.querySelector(name).replaceWith(made.querySelector(name));
    for (const [key, each] of folds()) if (before.has(key)) each.open = before.get(key);
    shown = document.body.dataset.version = made.body.dataset.version;
    document.dispatchEvent(new Event("contents"));
    scrollTo(left, top);
  }

  async function look() {
    let said = "follows the recording";
    try {
      const version = await (await fetch("version")).text();
      if (version !== shown && !isInUse()) take(await (await fetch(".")).text());
    } catch (error) {
      said = "stands still: python -m tracer report --live does not answer";
    }
    document.querySelector("#live").textContent = said;
    setTimeout(look, PERIOD);
  }
  look();
})();
