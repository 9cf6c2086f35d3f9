"use strict";
// A click on a column's head sorts the table, a second click the other way round.
for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const down = head.ariaSort ? head.ariaSort === "ascending" : head.classList.contains("number");
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      const way = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -way : way;
    };
    body.append(...[...body.rows].sort(order));
    for (const other of head.parentNode.cells) other.ariaSort = null;
    head.ariaSort = down ? "descending" : "ascending";
  });
}
