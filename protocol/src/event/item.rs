//! Messages and thinking.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ItemId, TurnId};

/// More text of an item. `offset` is where it continues, so a host can join in mid-item and knows when it missed some.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ItemDeltaEvent")]
pub struct Delta {
    /// The item.
    pub item_id: ItemId,
    /// Where this text begins, in bytes of UTF-8.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// An item is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ItemCompletedEvent")]
pub struct Completed {
    /// The turn.
    pub turn_id: TurnId,
    /// The item.
    pub item_id: ItemId,
    /// All of it.
    pub text: String,
    /// True where a cancel cut it off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}
