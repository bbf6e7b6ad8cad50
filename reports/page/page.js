"use strict";
// Everything is readable without this; with it a token shows both sides and how the razor decided.
(function () {
  var panel = document.getElementById("panel"), strips = [].slice.call(document.querySelectorAll(".strip"));
  var current = null, texts = {}, cache = new Map();
  document.documentElement.classList.add("js");

  function read(element) { return element ? JSON.parse(element.textContent) : null; }
  function dataOf(strip) {
    if (!cache.has(strip)) cache.set(strip, read(strip.parentNode.querySelector("script")));
    return cache.get(strip);
  }
  function textOf(strip, id) {
    var run = strip.closest("section").id;
    if (!texts[run]) texts[run] = read(document.getElementById("texts-" + run)) || {};
    return texts[run][id] === undefined ? null : texts[run][id];
  }
  function make(tag, text, name) {
    var e = document.createElement(tag);
    if (text !== undefined && text !== null) e.textContent = text;
    if (name) e.className = name;
    return e;
  }
  function number(v, digits) { return v === null || v === undefined ? "not known" : String(+v.toPrecision(digits || 6)); }
  function nats(v, ulp) {
    if (v === null || v === undefined) return "not known";
    return number(v) + " nat" + (ulp ? " (" + number(v / ulp, 4) + " ULP)" : "");
  }
  function token(strip, id) {
    if (id < 0) return "nothing";
    var t = textOf(strip, id);
    return id + (t === null ? "" : " \u201c" + t + "\u201d");
  }
  function topTable(strip, title, list, lse, golden, arm) {
    var box = make("div");
    box.appendChild(make("h4", title));
    if (!list) { box.appendChild(make("p", "no row stored on this prefix", "soft")); return box; }
    var table = make("table"), head = table.createTHead().insertRow();
    ["id", "value", "log-prob", "text"].forEach(function (h, i) { head.appendChild(make("th", h, i < 3 ? "n" : "")); });
    for (var i = 0; i + 1 < list.length; i += 2) {
      var row = table.insertRow(), id = list[i], cell;
      row.className = id === golden ? "golden" : id === arm ? "arm" : "";
      row.appendChild(make("td", id, "n"));
      row.appendChild(make("td", number(list[i + 1], 7), "n"));
      row.appendChild(make("td", lse === null ? "" : (list[i + 1] - lse).toFixed(4), "n"));
      cell = row.appendChild(make("td", null, "mono"));
      cell.appendChild(make("bdi", textOf(strip, id)));
    }
    box.appendChild(table);
    return box;
  }
  function facts(strip, r, verdicts) {
    var list = make("dl");
    function add(name, value) {
      list.appendChild(make("dt", name));
      list.appendChild(make("dd")).appendChild(make("bdi", value));
    }
    add("oracle", token(strip, r[0]));
    add("arm", token(strip, r[1]));
    add("verdict", verdicts[r[2]] + (r[3] & 1 ? ", root" : "") + (r[3] & 2 ? ", after the root" : ""));
    add(r[4] === null && r[5] !== null ? "gap at least" : "gap", nats(r[4] === null ? r[5] : r[4], r[6]));
    add("ULP", nats(r[6]));
    add("razor", nats(r[7], r[6]));
    add("oracle's jitter", nats(r[8], r[6]));
    add("its self gap", nats(r[9], r[6]));
    add("ties at its maximum", String(r[10]));
    if (r[11] !== null) add("its runner-up is behind by", nats(r[11], r[6]));
    return list;
  }
  function show(strip, index) {
    var data = dataOf(strip), spans = strip.children;
    if (!data || !spans.length) return;
    index = Math.max(0, Math.min(index, spans.length - 1));
    if (current) current.classList.remove("current");
    current = spans[index];
    current.classList.add("current");
    current.id = "current-token";
    strips.forEach(function (s) { if (s !== strip) s.removeAttribute("aria-activedescendant"); });
    [].forEach.call(document.querySelectorAll("#current-token"), function (e) { if (e !== current) e.removeAttribute("id"); });
    current.setAttribute("role", "option");
    strip.setAttribute("aria-activedescendant", "current-token");
    strip.index = index;
    fill(strip, index, data);
    var box = current.getBoundingClientRect(), top = panel.getBoundingClientRect().top;
    if (box.top < 8 || box.bottom > top - 8) window.scrollBy(0, box.top - top / 2);
  }
  function fill(strip, index, data) {
    var r = data.at[index], inside = panel.querySelector(".inside"), tops = make("div", null, "tops");
    inside.textContent = "";
    inside.appendChild(make("h3", data.name + ", token " + index));
    inside.appendChild(facts(strip, r, data.verdicts));
    var oracle = data.oracle[index], arm = data.arm[index], lse = data.lse[index];
    if (arm === 0) arm = oracle;
    tops.appendChild(topTable(strip, "oracle, decode-shaped", oracle, lse[0], r[0], r[1]));
    tops.appendChild(topTable(strip, data.arm[index] === 0 ? "arm, equal in every bit" : "arm, decode-shaped", arm, lse[1], r[0], r[1]));
    (data.more[index] || []).forEach(function (text) { inside.appendChild(make("p", text, "mono")); });
    inside.insertBefore(tops, inside.children[2] || null);
    panel.hidden = false;
    document.body.classList.add("open");
  }
  function hide() {
    panel.hidden = true;
    document.body.classList.remove("open");
    if (current) current.classList.remove("current");
  }
  function difference(strip, step) {
    var at = strips.indexOf(strip), i = strip.index === undefined ? -1 : strip.index;
    for (; at >= 0 && at < strips.length; at += step) {
      var spans = strips[at].children;
      for (i += step; i >= 0 && i < spans.length; i += step)
        if (!strips[at].parentNode.hidden && spans[i].matches(".root, .tie, .near, .nearer, .far, .odd, .forced")) {
          strips[at].focus({ preventScroll: true });
          show(strips[at], i);
          return;
        }
      i = step > 0 ? -1 : strips[at + step] ? strips[at + step].children.length : -1;
    }
  }
  function beside(strip, step) {
    var at = strips.indexOf(strip) + step;
    while (strips[at] && strips[at].parentNode.hidden) at += step;
    if (!strips[at]) return;
    strips[at].focus({ preventScroll: true });
    show(strips[at], strip.index || 0);
  }
  function key(event) {
    var strip = event.currentTarget, i = strip.index || 0, used = true;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight") show(strip, strip.index === undefined ? 0 : i + 1);
    else if (event.key === "ArrowLeft") show(strip, i - 1);
    else if (event.key === "ArrowDown") beside(strip, 1);
    else if (event.key === "ArrowUp") beside(strip, -1);
    else if (event.key === "Home") show(strip, 0);
    else if (event.key === "End") show(strip, strip.children.length - 1);
    else if (event.key === "Enter" || event.key === " ") show(strip, i);
    else if (event.key === "n") difference(strip, 1);
    else if (event.key === "p") difference(strip, -1);
    else if (event.key === "Escape") hide();
    else used = false;
    if (used) event.preventDefault();
  }
  strips.forEach(function (strip) {
    strip.tabIndex = 0;
    strip.setAttribute("role", "listbox");
    strip.addEventListener("keydown", key);
    strip.addEventListener("click", function (event) {
      var i = [].indexOf.call(strip.children, event.target.closest(".strip > span"));
      if (i >= 0) { strip.focus({ preventScroll: true }); show(strip, i); }
    });
  });
  panel.querySelector("button").addEventListener("click", hide);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") hide(); });
  [].forEach.call(document.querySelectorAll(".tools"), function (tools) {
    var only = tools.querySelector("[type=checkbox]"), find = tools.querySelector("[type=search]");
    var prompts = tools.parentNode.querySelectorAll(".prompt");
    function seen(p) { return p.querySelector("h3").textContent + "\n" + p.querySelector(".strip").textContent; }
    function filter() {
      [].forEach.call(prompts, function (p) {
        p.hidden = (only.checked && p.classList.contains("same")) || seen(p).indexOf(find.value) < 0;
      });
    }
    tools.hidden = false;
    only.addEventListener("change", filter);
    find.addEventListener("input", filter);
  });
  [].forEach.call(document.querySelectorAll("a[data-token]"), function (a) {
    a.addEventListener("click", function (event) {
      var article = document.getElementById(a.getAttribute("href").slice(1)), strip = article && article.querySelector(".strip");
      if (!strip) return;
      event.preventDefault();
      article.hidden = false;
      article.scrollIntoView({ block: "center" });
      strip.focus({ preventScroll: true });
      show(strip, +a.getAttribute("data-token"));
    });
  });
})();
