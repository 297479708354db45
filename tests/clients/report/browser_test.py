#!/usr/bin/python3
"""Opens the report's pages in headless Chromium and looks for faults.

    browser_test.py RENDER_FIXTURE

RENDER_FIXTURE is the program that writes the pages. Every page is opened light
and dark, wide and narrow, and as printed, and must log nothing, ask for nothing outside, and
pass page_checks.js: no text overlaps another, is cut off or hard to read, and
the page does not scroll sideways. Pages broken on purpose must fail.

Exit code 77, "skipped", where Chromium or its driver is not installed.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SKIPPED = 77
# Medium, colour scheme, width in pixels. The last is A4 with Chromium's margins.
VIEWS = [("screen", scheme, width) for scheme in ("light", "dark") for width in (1280, 420)] + [
    ("print", "dark", 717)]
MAX_PAGE_BYTES = 1 << 20
CHECKS = pathlib.Path(__file__).with_name("page_checks.js").read_text(encoding="utf-8")

# HTML to put before </main>, and the kind of fault that must be found then.
BREAKAGES = [
    ("overlap", '<svg width="300" height="40"><text x="10" y="20">stage zero</text>'
                '<text x="40" y="22">stage one</text></svg>'),
    ("overlap", '<p style="margin-bottom:-1.5rem">one line of words</p><p>another line</p>'),
    ("cut", '<svg width="60" height="40"><text x="10" y="20">a label too long</text></svg>'),
    ("cut", '<p style="width:4rem;white-space:nowrap">a sentence that does not fit</p>'),
    ("broken", '<p style="width:2rem;overflow-wrap:anywhere">galvatron-base</p>'),
    ("contrast", '<p style="color:#777;background:#888">grey on grey</p>'),
    ("contrast", '<svg class="plot" width="300" height="40"><rect class="f01" width="300" '
                 'height="40"/><text x="20" y="20">on a texture</text></svg>'),
    ("small", '<p style="font-size:8px">small print</p>'),
    ("wide", '<div style="width:3000px">wide</div>'),
    ("script", "<script>1;</script>"),
    ("outside", '<img alt="" src="https://example.invalid/picture.png"/>'),
    ("log", '<img alt="" src="https://example.invalid/picture.png"/>'),
    ("title", '<div class="chart"><svg width="300" height="40"></svg></div>'),
]


def start_browser(profile_folder):
    """A headless Chromium with its console and its network on record."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                     f"--user-data-dir={profile_folder}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser.set_page_load_timeout(60)
    browser.set_script_timeout(60)
    return browser


def requested_addresses(browser):
    """Addresses that pages asked for since the last call."""
    addresses = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            addresses.append(message["params"]["request"]["url"])
    return addresses


def inspect(browser, page, medium, scheme, width):
    """Opens `page` and gives page_checks.js's report, with what only the browser knows."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    browser.get_log("browser")
    requested_addresses(browser)
    browser.get(page.as_uri())
    report = browser.execute_script(CHECKS)
    for entry in browser.get_log("browser"):
        report["faults"].append(["log", entry["message"]])
    for address in requested_addresses(browser):
        if address != page.as_uri() and not address.startswith("data:"):
            report["faults"].append(["outside", address])
    for entry in browser.execute_script(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)"):
        if not entry.startswith("data:"):
            report["faults"].append(["outside", entry])
    # Paper is white, whatever the screen is.
    if report["dark"] != (scheme == "dark" and medium == "screen"):
        report["faults"].append(["scheme", "the page ignores the colour scheme"])
    return report


def check_pages(browser, pages):
    """Checks every page in every view; gives the number of faults."""
    fault_count = 0
    for page in pages:
        content = page.read_bytes()
        # The page is written as XML, so a strict reader can judge its form.
        xml.etree.ElementTree.fromstring(content)
        faults = []
        if len(content) > MAX_PAGE_BYTES:
            faults.append(["size", f"{len(content)} bytes"])
        line_counts = []
        for view in VIEWS:
            report = inspect(browser, page, *view)
            line_counts.append(report["lines"])
            faults += [[kind, f"{' '.join(map(str, view))} wide: {text}"]
                       for kind, text in report["faults"]]
        print(f"{page.stem}: {len(content) / 1000:.0f} kB, {report['charts']} charts, "
              f"{max(line_counts)} lines of text, {len(faults)} faults", flush=True)
        for kind, text in faults[:12]:
            print(f"  {kind}: {text}")
        fault_count += len(faults)
    return fault_count


def check_breakages(browser, page, folder):
    """Breaks `page` in every way of BREAKAGES; gives how many went unnoticed."""
    content = page.read_text(encoding="utf-8")
    unnoticed = 0
    for number, (kind, markup) in enumerate(BREAKAGES):
        broken = folder / f"broken-{number}.html"
        broken.write_text(content.replace("</main>", markup + "</main>"), encoding="utf-8")
        for view in VIEWS:
            kinds = {fault[0] for fault in inspect(browser, broken, *view)["faults"]}
            if kind not in kinds:
                unnoticed += 1
                print(f"not noticed in {view}: {kind} in {markup}; found {sorted(kinds)}")
    print(f"{len(BREAKAGES)} pages broken on purpose: "
          + ("all noticed" if unnoticed == 0 else f"{unnoticed} not noticed"))
    return unnoticed


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        print("skipped: needs chromium and chromium-driver")
        return SKIPPED
    try:
        import selenium  # noqa: F401
    except ImportError:
        print("skipped: needs python3-selenium")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["HOME"] = name  # Chromium keeps caches there
        written = subprocess.run([sys.argv[1], name], check=True, capture_output=True, text=True)
        pages = [pathlib.Path(line) for line in written.stdout.splitlines()]
        browser = start_browser(folder / "profile")
        try:
            fault_count = check_pages(browser, pages)
            unnoticed = check_breakages(browser, pages[0], folder)
        finally:
            browser.quit()
    print(f"Checked {len(pages)} pages in {len(VIEWS)} views (light and dark, 1280 and 420 pixels "
          "wide, printed): console and network silent, no script, "
          "policy and titles present, no text overlapping, cut off, broken up, too small or below a contrast "
          f"of 4.5, no sideways scrolling. Faults: {fault_count}.")
    return 0 if pages and fault_count == 0 and unnoticed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
