from adk_fluent.viz.diagrams import to_mermaid as to_mermaid
from adk_fluent.viz.diagrams import to_outline as to_outline
from adk_fluent.viz.images import to_png as to_png
from adk_fluent.viz.images import to_svg as to_svg
from adk_fluent.viz.page import to_html as to_html
