//! ReadMediaFile: an image file, made fit for the model.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt;
use longshore_protocol::value::display::Display;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::target::{self, Failed, Target, io_reason};
use super::{FileDeps, convert_hint};
use crate::kernel::access::Access;
use crate::kernel::limits::{IMAGE_BYTES, IMAGE_DECODE_INPUT_BYTES, MEDIA_FILE_BYTES};
use crate::kernel::message::Part;
use crate::kernel::rule::Subject;
use crate::media::deliver::{Delivered, How, Rect, Room, Undelivered, Wish, deliver};
use crate::media::kind::{ImageKind, Kind, SNIFF_BYTES, Seen, seen};
use crate::os::blocking;
use crate::text::markup::attribute;
use crate::tool::{Call, CallCx, Execute, Outcome, Refusal, Tool, ToolSpec, args};

/// What the model gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MediaArgs {
    /// Path of the file; relative paths start at the working directory.
    path: String,
    /// The part of an image to show, in pixels of the original as displayed.
    #[serde(default)]
    region: Option<Region>,
    /// True to show an image or a region as it is, without scaling it down.
    #[serde(default)]
    full_resolution: bool,
}

/// A part of an image.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Region {
    /// Pixels from the left edge.
    #[schemars(range(min = 0))]
    x: u32,
    /// Pixels from the top edge.
    #[schemars(range(min = 0))]
    y: u32,
    /// Pixels to the right.
    #[schemars(range(min = 1))]
    width: u32,
    /// Pixels down.
    #[schemars(range(min = 1))]
    height: u32,
}

/// See the module.
#[derive(Debug)]
pub struct ReadMediaFile {
    spec: ToolSpec,
    deps: FileDeps,
}

impl ReadMediaFile {
    /// The tool's name.
    pub const NAME: &'static str = "ReadMediaFile";

    /// Makes the tool, for a model that takes images.
    pub fn new(deps: FileDeps) -> Self {
        let video = if deps.video_input {
            " Videos can't be sent over this model's connection; take frames out of them first."
        } else {
            " The model in use takes no video."
        };
        let description = include_str!("media.md")
            .trim()
            .replace("{video}", video)
            .replace("{edge}", &deps.image.max_edge_px.to_string())
            .replace("{budget}", &deps.image.read_byte_budget.to_string());
        let spec = ToolSpec {
            name: Self::NAME,
            description: description.into(),
            parameters: Arc::new(args::schema_of::<MediaArgs>()),
            dedupe: true,
            own_budget: true,
        };
        Self { spec, deps }
    }
}

impl Tool for ReadMediaFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn resolve(&self, args: Value, cx: &CallCx) -> Result<Call, Refusal> {
        let args: MediaArgs = args::typed(args)?;
        let path = cx.workspace.resolve(&args.path)?.path;
        Ok(Call {
            accesses: vec![Access::read(&path)],
            title: format!("Read {}", cx.workspace.show(&path)),
            display: Display::FileRead {
                path: path.display().to_string(),
                line: None,
            },
            subject: Subject::Path(path),
            preview: None,
            execute: MediaJob {
                args,
                deps: self.deps.clone(),
            }
            .execute(),
        })
    }
}

struct MediaJob {
    args: MediaArgs,
    deps: FileDeps,
}

/// An image file that may be decoded.
struct Image {
    kind: ImageKind,
    bytes: Bytes,
}

impl MediaJob {
    fn execute(self) -> Execute {
        Box::new(move |cx| {
            async move {
                let Some(target) = target::of_call(&cx.accesses, &self.args.path) else {
                    return target::no_access().into();
                };
                let job = Arc::new(self);
                let (reader, cancel) = (job.clone(), cx.cancel.clone());
                match blocking::run(move || reader.read(&target, &cancel)).await {
                    Ok(image) => job.show(image, &cx.cancel).await,
                    Err(failed) => failed.into(),
                }
            }
            .boxed()
        })
    }

    /// Opens the file once, decides by its beginning and its size, and reads the rest from the same handle.
    fn read(&self, target: &Target, cancel: &CancellationToken) -> Result<Image, Failed> {
        target::check_cancel(cancel)?;
        let (mut file, meta) = target.open()?;
        let unreadable = |error: std::io::Error| {
            Failed::new(format!(
                "{} can't be read: {}.",
                target.shown,
                io_reason(&error)
            ))
        };
        let size = meta.len();
        if size == 0 {
            return Err(Failed::new(format!("{} is empty.", target.shown)));
        }
        let mut bytes = Vec::new();
        file.by_ref()
            .take(SNIFF_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let kind = self.image_kind(&bytes, target.real())?;
        self.check_size(size)?;
        bytes.reserve_exact((size as usize).saturating_sub(bytes.len()));
        // A file that is being written to is read as far as it was when it was opened.
        let rest = size.saturating_sub(bytes.len() as u64);
        file.take(rest)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        target::check_cancel(cancel)?;
        Ok(Image {
            kind,
            bytes: bytes.into(),
        })
    }

    /// The format, where it is an image that can be shown to this model.
    fn image_kind(&self, head: &[u8], path: &Path) -> Result<ImageKind, Failed> {
        let shown = &self.args.path;
        let kind = match seen(head, path) {
            Seen::Media(kind) => kind,
            Seen::Text => {
                return Err(Failed::new(format!(
                    "{shown} is text, not an image; use Read."
                )));
            }
            Seen::Unknown => {
                return Err(Failed::new(format!(
                    "{shown} is neither an image nor text: its bytes are of no known format."
                )));
            }
        };
        let why = match kind {
            Kind::Image(_) if !self.deps.image_input => {
                "the model in use takes no images".to_owned()
            }
            Kind::Image(image) if image.is_sendable() => return Ok(image),
            Kind::Image(_) | Kind::Pdf => convert_hint::hint(kind, path, std::env::consts::OS),
            Kind::Video(_) if self.deps.video_input => {
                format!(
                    "this model's connection carries images only. {}",
                    convert_hint::frames(path, std::env::consts::OS)
                )
            }
            Kind::Video(_) => format!(
                "the model in use takes no video. {}",
                convert_hint::frames(path, std::env::consts::OS)
            ),
        };
        Err(Failed::new(format!(
            "{shown} is {} ({}) and was not shown: {why}",
            kind.describe(),
            kind.mime()
        )))
    }

    fn check_size(&self, size: u64) -> Result<(), Failed> {
        let shown = &self.args.path;
        let mib = size >> 20;
        let why = if size > MEDIA_FILE_BYTES {
            format!(
                "files above {} MiB are not looked at. Make a smaller copy first",
                MEDIA_FILE_BYTES >> 20
            )
        } else if self.args.region.is_none() && self.args.full_resolution {
            if size <= IMAGE_BYTES as u64 {
                return Ok(());
            }
            format!(
                "at full resolution, images are shown up to {IMAGE_BYTES} bytes, and this one has {size}. Give a `region`, \
                 or leave full_resolution out"
            )
        } else if size > IMAGE_DECODE_INPUT_BYTES as u64
            && (self.args.region.is_some() || size > self.deps.image.read_byte_budget as u64)
        {
            format!(
                "it has {mib} MiB, and images are decoded up to {}. Make a smaller copy first",
                IMAGE_DECODE_INPUT_BYTES >> 20
            )
        } else {
            return Ok(());
        };
        Err(Failed::new(format!("{shown} was not shown: {why}.")))
    }

    fn wish(&self) -> Wish {
        match (self.args.region, self.args.full_resolution) {
            (None, true) => Wish::Full,
            (None, false) => Wish::Fit(Room {
                edge: self.deps.image.max_edge_px,
                bytes: self.deps.image.read_byte_budget,
            }),
            (Some(region), full_resolution) => Wish::Crop {
                rect: Rect {
                    x: region.x,
                    y: region.y,
                    width: region.width,
                    height: region.height,
                },
                edge: (!full_resolution).then_some(self.deps.image.max_edge_px),
            },
        }
    }

    async fn show(&self, image: Image, cancel: &CancellationToken) -> Outcome {
        let (kind, n_bytes) = (image.kind, image.bytes.len());
        match deliver(&self.deps.images, image.bytes, self.wish(), cancel).await {
            Ok(delivered) => {
                let note = note(&delivered, kind, n_bytes);
                Outcome::parts(vec![
                    Part::text(format!("<image path=\"{}\">", attribute(&self.args.path))),
                    Part::Image {
                        mime: delivered.kind.mime().into(),
                        data: STANDARD.encode(&delivered.bytes).into(),
                    },
                    Part::text("</image>"),
                ])
                .with_note(note)
            }
            Err(Undelivered::Cancelled) => target::cancelled().into(),
            Err(why) => Outcome::failed(format!(
                "{} was not shown: {why}. {}",
                self.args.path,
                self.advice(&why)
            )),
        }
    }

    /// What to do about an image that is not shown.
    fn advice(&self, why: &Undelivered) -> String {
        match why {
            Undelivered::Broken(_) | Undelivered::Undecodable(_) => {
                "Make it anew, or convert a copy with a shell command.".to_owned()
            }
            Undelivered::Outside(_) => "Choose a region inside.".to_owned(),
            Undelivered::TooLarge if self.args.region.is_some() => {
                "Choose a smaller region.".to_owned()
            }
            Undelivered::TooLarge if self.args.full_resolution => {
                "Give a `region`, or leave full_resolution out.".to_owned()
            }
            Undelivered::TooLarge
            | Undelivered::Moves
            | Undelivered::TooManyPixels(_)
            | Undelivered::TooManyBytes(_) => {
                "Make a smaller copy in another format with a shell command and look at that; the same call would fail \
                 again."
                    .to_owned()
            }
            Undelivered::Cancelled => String::new(),
        }
    }
}

/// What the model has to know to speak about places in the image.
fn note(delivered: &Delivered, kind: ImageKind, n_bytes: usize) -> String {
    let (width, height) = delivered.original;
    let (shown_width, shown_height) = delivered.size;
    let shown = format!(
        "Image, {}, {} bytes.",
        delivered.kind.mime(),
        delivered.bytes.len()
    );
    let places =
        "Name places in it by fractions of width and height first, then by pixels of the original.";
    let mode = match delivered.how {
        How::Untouched => {
            format!("Shown as it is: {width} × {height} pixels. {places}")
        }
        How::Scaled => format!(
            "Downsampled to {shown_width} × {shown_height} pixels; the original has {width} × {height} pixels ({}, \
             {n_bytes} bytes). Use `region`, in pixels of the original, to see details. {places}",
            kind.mime()
        ),
        How::Cropped(rect) => {
            let scaled = if (rect.width, rect.height) == delivered.size {
                String::new()
            } else {
                format!(
                    ", shown at {shown_width} × {shown_height} pixels: multiply by {:.4} for pixels of the original",
                    f64::from(rect.width) / f64::from(shown_width)
                )
            };
            format!(
                "A crop of {} × {} pixels whose corner lies at ({}, {}) of the original, which has {width} × {height} \
                 pixels{scaled}. Add ({}, {}) to a place in the crop for its place in the original.",
                rect.width, rect.height, rect.x, rect.y, rect.x, rect.y
            )
        }
    };
    format!(
        "{shown} {mode} If you make or change an image, look at it again before you speak of it."
    )
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
