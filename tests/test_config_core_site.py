"""core-site.xml: the form of the file; what its values mean is in test_config_hadoop.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircall.server.config import ConfigError
from faircall.server.settings.core_site import read_core_site

from .conftest import Load

HEAD = '<?xml version="1.0"?>\n<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>\n'


def read(tmp_path: Path, body: str, **environ: str) -> dict[str, object]:
    path = tmp_path / "core-site.xml"
    path.write_text(f"{HEAD}<configuration>{body}</configuration>")
    return {entry.key: entry.value for entry in read_core_site(path, environ)}


def prop(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


GUIDE = f"""{HEAD}<!-- the guide -->
<configuration>
  <property>
    <name>ipc.8020.callqueue.impl</name>
    <value>org.apache.hadoop.ipc.FairCallQueue</value>
    <description>ignored</description>
  </property>
  <property>
    <name>ipc.8020.callqueue.capacity.weights</name>
    <value>7,3</value>
  </property>
  <property>
    <name>ipc.8020.scheduler.impl</name>
    <value>org.apache.hadoop.ipc.DecayRpcScheduler</value>
  </property>
  <property>
    <name>ipc.8020.scheduler.priority.levels</name>
    <value>2</value>
  </property>
  <property>
    <name>ipc.8020.faircallqueue.multiplexer.weights</name>
    <value>99,1</value>
  </property>
  <property>
    <name>ipc.8020.decay-scheduler.thresholds</name>
    <value>90</value>
  </property>
  <property>
    <name>fs.defaultFS</name>
    <value>hdfs://namenode:8020</value>
  </property>
</configuration>
"""


def test_the_example_of_the_fair_call_queue_guide_is_read_as_it_is(load: Load) -> None:
    settings = load(GUIDE, name="core-site.xml")
    port = settings.ports[8020]
    assert port.hadoop_rules
    assert port.callqueue.impl == "FairCallQueue"
    assert port.scheduler.impl == "DecayRpcScheduler"
    assert port.scheduler.priority_levels == 2
    assert port.callqueue.capacity_weights == (7, 3)
    assert port.callqueue.multiplexer_weights == (99, 1)
    assert port.decay_scheduler.thresholds == (0.9,)
    assert settings.origins["ipc.8020.callqueue.capacity.weights"] == "core-site.xml:10"
    assert settings.notes == ()


def test_the_last_of_several_properties_counts(tmp_path: Path) -> None:
    assert read(tmp_path, prop("a", "1") + prop("a", "2")) == {"a": "2"}


def test_a_final_property_is_not_replaced(tmp_path: Path) -> None:
    final = prop("a", "1", "<final>true</final>")
    assert read(tmp_path, final + prop("a", "2")) == {"a": "1"}


def test_parts_of_a_property_may_be_attributes(tmp_path: Path) -> None:
    assert read(tmp_path, '<property name="a" value="1"/>') == {"a": "1"}


def test_a_property_without_a_value_or_a_name_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, "<property><name>a</name></property><property/>") == {}
    assert read(tmp_path, prop("a", "")) == {"a": ""}


def test_names_are_trimmed_and_cdata_is_text(tmp_path: Path) -> None:
    assert read(tmp_path, prop(" a\n", "<![CDATA[<1>]]> &amp;")) == {"a": "<1> &"}


def test_variables_are_replaced_by_properties_and_by_the_environment(tmp_path: Path) -> None:
    body = prop("a", "${b}-${env.X}") + prop("b", "${c}") + prop("c", "1") + prop("d", "${no}")
    assert read(tmp_path, body, X="x") == {"a": "1-x", "b": "1", "c": "1", "d": "${no}"}


def test_variables_that_name_each_other_come_to_an_end(tmp_path: Path) -> None:
    assert set(read(tmp_path, prop("a", "${b}") + prop("b", "${a}"))) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '<!DOCTYPE configuration [<!ENTITY a "b">]><configuration/>',
            r"core-site\.xml:1: a DOCTYPE is not accepted",
        ),
        ("<project/>", "<project> instead of <configuration>"),
        ('<configuration>\n<xi:include href="x"/></configuration>', ":2: an include is not foll"),
        ("<configuration>\n<property>", r"core-site\.xml:2: no element found"),
        ("", r"core-site\.xml:1: no element found"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "core-site.xml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_core_site(path, {})
