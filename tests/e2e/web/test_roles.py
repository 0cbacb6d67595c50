"""Each role sees only permitted actions in a browser, and these actions work."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from evo.client import Client
from evo.messages.access import Role
from tests.e2e.web.browser import assert_accessible, reading
from tests.integration.serving import served
from tests.integration.stage import Stage


def sign_in(page: Page, secret: str) -> None:
    page.goto("/workers")
    page.wait_for_url("**/sign-in**")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")  # both URLs end with `/workers`


def test_each_role_sees_only_permitted_actions(browser: Browser, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "evo.db")
    stage.submit(budget={"trials": 4})
    list(stage.play())
    paused = stage.submit(seed=2, problem="N=32")
    stage.database.close()
    with served(tmp_path / "evo.db") as url:
        with Client(url) as anybody:
            secrets = {"admin": anybody.create_token("first", ["admin"]).secret}
        with Client(url, token=secrets["admin"]) as admin:
            roles: tuple[Role, ...] = ("viewer", "submitter")
            secrets |= {role: admin.create_token(role, [role]).secret for role in roles}
        for role, secret in secrets.items():
            with reading(browser, url) as page:
                sign_in(page, secret)
                commands, drains = role != "viewer", role == "admin"
                expect(page.get_by_role("button", name="Drain")).to_have_count(int(drains))
                expect(page.get_by_role("link", name="Quarantine")).to_have_count(int(drains))
                page.goto("/")
                expect(page.get_by_role("link", name="New search")).to_have_count(int(commands))
                page.goto(f"/searches/{paused}")
                expect(page.get_by_role("button", name="Pause")).to_have_count(int(commands))
                page.goto("/champions/1")
                expect(page.get_by_role("link", name="Roll back")).to_have_count(int(commands))
                if role == "submitter":
                    roll_back(page)
                    page.goto(f"/searches/{paused}")
                    page.get_by_role("button", name="Pause").click()
                    expect(page.locator(".lead .state")).to_contain_text("paused")
                    page.get_by_role("button", name="Resume").click()
                    expect(page.locator(".lead .state")).to_contain_text("running")
                    page.get_by_role("link", name="Cancel").press("Enter")
                    page.get_by_role("link", name="Keep it running").press("Enter")
                    expect(page.locator(".lead .state")).to_contain_text("running")
                    page.get_by_role("link", name="Cancel").press("Enter")
                    page.get_by_role("button", name="Cancel the search").press("Enter")
                    expect(page.locator(".lead .state")).to_contain_text("cancelled")


def roll_back(page: Page) -> None:
    page.get_by_role("link", name="Roll back").click()
    expect(page.get_by_label("Reason")).to_be_visible()
    assert_accessible(page)
    page.get_by_label("Reason").fill("measured on a busy machine")
    page.get_by_role("button", name="Roll back").click()
    page.wait_for_url("**/champions/1")
    expect(page.get_by_text("rolled back: measured on a busy machine").first).to_be_visible()
