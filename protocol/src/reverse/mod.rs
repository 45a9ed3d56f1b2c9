//! THE table of reverse requests: what a server asks its hosts.
//!
//! An ask goes to every attached host that declared the capability; the first valid answer wins and the others get
//! `$/cancelRequest`. Nothing is ever approved by a timeout, a disconnect or an error. A request about a file goes to
//! one host ([`fs`]).

pub mod fs;

use self::fs::{ReadTextFileParams, ReadTextFileResult, WriteTextFileParams, WriteTextFileResult};

use crate::value::approval::{ApprovalAnswer, ApprovalRequest};
use crate::value::question::{QuestionAnswer, QuestionRequest};

macro_rules! reverse {
    ($($(#[doc = $doc:literal])+ $name:ident => $wire:literal ($capability:literal) { $params:path, $answer:path },)+) => {
        /// The reverse requests, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reverse {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reverse {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The wire name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $wire,)+ }
            }

            /// The capability a host declares to get it.
            pub fn capability(self) -> &'static str {
                match self { $(Self::$name => $capability,)+ }
            }

            /// What it means.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The schemas of params and answer.
            pub fn schemas(self, generator: &mut schemars::SchemaGenerator) -> (schemars::Schema, schemars::Schema) {
                match self { $(Self::$name => (generator.subschema_for::<$params>(), generator.subschema_for::<$answer>()),)+ }
            }
        }
    };
}

reverse! {
    /// May this call run?
    ApprovalRequest => "approval/request" ("approvals") { ApprovalRequest, ApprovalAnswer },
    /// What does the user want?
    QuestionRequest => "question/request" ("questions") { QuestionRequest, QuestionAnswer },
    /// What is the text of this file, unsaved changes included? `file_not_found` where there is no such file.
    FsReadTextFile => "fs/readTextFile" ("fs.read") { ReadTextFileParams, ReadTextFileResult },
    /// Give this file a new text, making it where it does not exist.
    FsWriteTextFile => "fs/writeTextFile" ("fs.write") { WriteTextFileParams, WriteTextFileResult },
}
