"""What the sections of the settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=1, le=65_535)]


class Section(BaseModel):
    """Unknown keys are errors; nothing changes after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)
