"""RocketMQ, as far as its exporters tell of it: profiles in `workbench.profiles`, and its own tools' words. Nothing here asks one."""

__all__: list[str] = []
