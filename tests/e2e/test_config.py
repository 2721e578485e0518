"""`grid init`, `grid config show` and `grid config check`, as a user meets them."""

import json

import pytest


@pytest.mark.rows("S3-18")
def test_what_init_writes_passes_the_check(grid, tmp_path):
    made = grid("init")
    checked = grid("config", "check")

    assert made.returncode == 0, made.stderr
    assert made.stdout == ""
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.startswith("cluster_config.yaml is good: ")
    assert "resource_sharing:" in (tmp_path / "cluster_config.yaml").read_text("utf-8")


def test_init_asks_before_it_overwrites(grid, tmp_path):
    file = tmp_path / "sub" / "own.yaml"
    assert grid("init", file).returncode == 0
    file.write_text("node: {name: mine}\n", encoding="utf-8")

    no, nobody = grid("init", file, stdin="n\n"), grid("init", file)
    assert (no.returncode, nobody.returncode) == (1, 1)
    assert "Overwrite it?" in no.stderr
    assert "--force" in nobody.stderr
    assert file.read_text("utf-8") == "node: {name: mine}\n"

    assert grid("init", file, stdin="y\n").returncode == 0
    file.write_text("node: {name: mine}\n", encoding="utf-8")
    assert grid("init", file, "--force").returncode == 0
    assert "mine" not in file.read_text("utf-8")


def test_init_where_nothing_can_be_written_is_told(grid, tmp_path):
    (tmp_path / "file").touch()
    done = grid("init", "file/own.yaml")

    assert done.returncode == 2
    assert "file/own.yaml: $: cannot be written: " in done.stderr


def test_show_tells_each_value_with_its_origin(grid, tmp_path):
    (tmp_path / "cluster_config.yaml").write_text(
        "name: lab\nnode:\n  name: desk\nlogging: {level: debug}\n", encoding="utf-8"
    )
    env = {"GRID_LOG_LEVEL": "error", "GRID_LOGLEVEL": "x"}
    done = grid("--log-format", "json", "config", "show", "--json", env=env)
    report = json.loads(done.stdout)
    shown = {entry["key"]: entry for entry in report["settings"]}

    assert done.returncode == 0, done.stderr
    assert shown["node.name"]["value"] == "desk"
    assert shown["node.name"]["origin"] == {
        "source": "file", "file": "cluster_config.yaml", "line": 3, "name": "",
    }  # fmt: skip
    assert shown["logging.level"]["value"] == "error"
    assert shown["logging.level"]["origin"]["name"] == "GRID_LOG_LEVEL"
    assert shown["logging.format"]["origin"]["name"] == "--log-format"
    assert shown["jobs.grace"]["origin"]["source"] == "default"
    assert [entry["key"] for entry in report["later"]] == ["name"]
    assert any("GRID_LOGLEVEL means nothing" in note for note in report["notes"])


def test_show_for_people_says_the_same(grid, tmp_path):
    (tmp_path / "cluster_config.yaml").write_text("name: lab\nnode: {name: desk}\n", "utf-8")
    done = grid("config", "show", env={"GRID_NONSENSE": "1"})
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert "node.name desk cluster_config.yaml:2" in lines
    assert "jobs.grace 10s default" in lines
    assert "jobs.log_bytes 64 MiB default" in lines
    assert "node.labels - default" in lines
    assert "Read and checked; comes later" in lines
    assert "name lab cluster_config.yaml:1" in lines
    assert "GRID_NONSENSE means nothing to Grid" in done.stderr


def test_the_persons_own_file_and_grid_home_count(grid, tmp_path):
    home = tmp_path / "grid-home"
    home.mkdir()
    (home / "cluster_config.yaml").write_text("node: {name: homely}\n", encoding="utf-8")
    done = grid("config", "show", "--json", env={"GRID_HOME": str(home)})
    shown = {entry["key"]: entry["value"] for entry in json.loads(done.stdout)["settings"]}

    assert shown["node.name"] == "homely"
    assert shown["data_dir"] == str(home)


def test_a_bad_file_is_told_with_file_line_and_suggestion(grid, tmp_path):
    (tmp_path / "cluster_config.yaml").write_text("jobs:\n  grase: 5s\n", encoding="utf-8")
    done = grid("config", "check")

    assert done.returncode == 2
    assert done.stderr == (
        "grid: cluster_config.yaml:2: $.jobs: has the unknown key 'grase'. Did you mean 'grace'? "
        "Known: finished_max, grace, log_bytes, queue_max.\n"
    )
    assert grid("config", "check", "nowhere.yaml").returncode == 2


def test_without_a_file_the_defaults_count(grid):
    done = grid("config", "check")

    assert done.returncode == 0
    assert "grid init" in done.stdout


@pytest.mark.rows("S2-127")
def test_the_table_of_seed_2_is_shown_with_what_each_key_waits_for(grid, tmp_path):
    (tmp_path / "cluster_config.toml").write_text(
        '[cluster_mesh]\ntopology = "star"\nmax_connections_per_node = 9\nmax_relay_hops = 2\n',
        "utf-8",
    )
    shown, checked = grid("config", "show", "--json"), grid("config", "check")
    report = json.loads(shown.stdout)
    used = {entry["key"]: entry for entry in report["settings"]}
    waits = {entry["key"]: entry["comes_with"] for entry in report["later"]}

    assert used["mesh.max_connections_per_node"]["value"] == 9
    assert used["mesh.max_connections_per_node"]["origin"]["line"] == 3
    assert used["mesh.topology"]["value"] == "hybrid"
    assert waits == {
        "cluster_mesh.max_relay_hops": "relays among members and NAT traversal",
        "cluster_mesh.topology": "topologies other than full and hybrid",
    }
    assert checked.returncode == 0, checked.stderr
    assert "cluster_config.toml:2: the topology 'star' comes later" in checked.stderr
    assert "NAT traversal come later: cluster_mesh.max_relay_hops" in checked.stderr
    assert checked.stdout == "cluster_config.toml is good: 1 settings, 2 more for later versions\n"
    table = grid("config", "show", env={"COLUMNS": "200"}).stdout
    assert "Comes with" in table


def test_what_bootstrap_needs_is_not_for_later(grid, tmp_path):
    file = tmp_path / "cluster_config.yaml"
    file.write_text("nodes: [gpu1]\nssh: {key_file: ~/.ssh/id, timeout: 3}\n")
    done = grid("config", "check", str(file))

    assert "is good: 0 settings, 2 for grid bootstrap, 1 more for later versions" in done.stdout
