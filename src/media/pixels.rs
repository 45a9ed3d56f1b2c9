//! Pixels in memory: decoded, cropped, scaled and turned.
//!
//! One image is one buffer, changed in place where that is possible, so that the memory a decode takes is known before.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fast_image_resize::images::Image;
use fast_image_resize::{Filter, FilterType, MulDiv, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{ColorType, ImageDecoder, ImageError, Limits};

use super::kind::ImageKind;
use super::orientation::{Orientation, Rect};

/// Eight bits for each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) channels: Channels,
    /// Row by row, without padding.
    pub(super) data: Vec<u8>,
}

/// What the samples of a pixel are. The value is how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Gray = 1,
    GrayAlpha = 2,
    Rgb = 3,
    Rgba = 4,
}

impl Channels {
    pub(super) fn n(self) -> usize {
        self as usize
    }

    pub(super) fn has_alpha(self) -> bool {
        matches!(self, Self::GrayAlpha | Self::Rgba)
    }

    fn pixel_type(self) -> PixelType {
        match self {
            Self::Gray => PixelType::U8,
            Self::GrayAlpha => PixelType::U8x2,
            Self::Rgb => PixelType::U8x3,
            Self::Rgba => PixelType::U8x4,
        }
    }
}

impl Pixels {
    /// Decodes, taking at most so many bytes of memory.
    ///
    /// # Errors
    /// One clause: why the image can't be decoded.
    pub(super) fn decode(kind: ImageKind, bytes: &[u8], max_bytes: u64) -> Result<Self, String> {
        // Decoders are made for hostile files, but a panic in one must not take a call with it.
        catch_unwind(AssertUnwindSafe(|| {
            let mut limits = Limits::no_limits();
            limits.max_alloc = Some(max_bytes);
            let file = Cursor::new(bytes);
            match kind {
                ImageKind::Png => read(PngDecoder::with_limits(file, limits.clone())?, limits),
                ImageKind::Jpeg => read(JpegDecoder::new(file)?, limits),
                ImageKind::Webp => read(WebPDecoder::new(file)?, limits),
                _ => Ok(Err("it is of a format that is not decoded here".to_owned())),
            }
        }))
        .unwrap_or_else(|_| Ok(Err("its decoder failed".to_owned())))
        .unwrap_or_else(|error| Err(reason(&error)))
    }

    pub(super) fn edge(&self) -> u32 {
        self.width.max(self.height)
    }

    /// Keeps a rectangle, which lies inside.
    pub(super) fn crop(&mut self, rect: Rect) {
        let n = self.channels.n();
        let (old_row, row) = (self.width as usize * n, rect.width as usize * n);
        for y in 0..rect.height as usize {
            let from = (rect.y as usize + y) * old_row + rect.x as usize * n;
            self.data.copy_within(from..from + row, y * row);
        }
        self.data.truncate(rect.height as usize * row);
        self.data.shrink_to_fit();
        (self.width, self.height) = (rect.width, rect.height);
    }

    /// Drops transparency that is not used, and colour likewise.
    pub(super) fn simplify(&mut self) {
        let n = self.channels.n();
        let opaque = match self.channels {
            Channels::GrayAlpha => Channels::Gray,
            Channels::Rgba => Channels::Rgb,
            Channels::Gray | Channels::Rgb => return,
        };
        if self.data.chunks_exact(n).any(|pixel| pixel[n - 1] != 0xFF) {
            return;
        }
        let mut kept = 0;
        for at in (0..self.data.len()).step_by(n) {
            self.data.copy_within(at..at + n - 1, kept);
            kept += n - 1;
        }
        self.data.truncate(kept);
        self.channels = opaque;
    }

    /// Scales down so that the longer edge has at most this length; an image that has is given back as it is.
    ///
    /// Each new pixel is the mean of the area it covers, colours weighted by how opaque they are: fine patterns turn grey
    /// instead of into others, and colours of transparent pixels do not bleed.
    ///
    /// # Errors
    /// One clause; only for an image that holds no pixels.
    pub(super) fn fitted(mut self, edge: u32) -> Result<Self, String> {
        let long = self.edge();
        if long <= edge {
            return Ok(self);
        }
        let scaled = |length: u32| {
            let exact = u64::from(length) * u64::from(edge) * 2 + u64::from(long);
            u32::try_from(exact / (2 * u64::from(long)))
                .unwrap_or(edge)
                .max(1)
        };
        let (width, height) = (scaled(self.width), scaled(self.height));
        let odd = |_| "its size is not that of its pixels".to_owned();
        let mut source = Image::from_vec_u8(
            self.width,
            self.height,
            std::mem::take(&mut self.data),
            self.channels.pixel_type(),
        )
        .map_err(odd)?;
        let failed = |error: &dyn std::fmt::Display| format!("scaling it failed ({error})");
        let alpha = MulDiv::new();
        if self.channels.has_alpha() {
            alpha
                .multiply_alpha_inplace(&mut source)
                .map_err(|error| failed(&error))?;
        }
        let mut target = Image::new(width, height, self.channels.pixel_type());
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(area_filter(
                f64::from(long) / f64::from(edge),
            )))
            .use_alpha(false);
        Resizer::new()
            .resize(&source, &mut target, &options)
            .map_err(|error| failed(&error))?;
        if self.channels.has_alpha() {
            alpha
                .divide_alpha_inplace(&mut target)
                .map_err(|error| failed(&error))?;
        }
        Ok(Self {
            width,
            height,
            channels: self.channels,
            data: target.into_vec(),
        })
    }

    /// Turns the image as it is displayed.
    pub(super) fn turned(self, orientation: Orientation) -> Self {
        if orientation == Orientation::NORMAL {
            return self;
        }
        let stored = (self.width, self.height);
        let (width, height) = orientation.displayed(stored);
        let n = self.channels.n();
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..height {
            for x in 0..width {
                let (from_x, from_y) = orientation.stored((x, y), stored);
                let at = (from_y as usize * self.width as usize + from_x as usize) * n;
                data.extend_from_slice(&self.data[at..at + n]);
            }
        }
        Self {
            width,
            height,
            channels: self.channels,
            data,
        }
    }
}

/// The samples of a decoder, with sixteen bits made eight.
fn read<D: ImageDecoder>(
    mut decoder: D,
    limits: Limits,
) -> Result<Result<Pixels, String>, ImageError> {
    let max_bytes = limits.max_alloc.unwrap_or(u64::MAX);
    decoder.set_limits(limits)?;
    let (width, height) = decoder.dimensions();
    let n_bytes = decoder.total_bytes();
    if n_bytes > max_bytes {
        return Ok(Err(
            "its pixels take more memory than its header said".to_owned()
        ));
    }
    let (channels, is_wide) = match decoder.color_type() {
        ColorType::L8 => (Channels::Gray, false),
        ColorType::La8 => (Channels::GrayAlpha, false),
        ColorType::Rgb8 => (Channels::Rgb, false),
        ColorType::Rgba8 => (Channels::Rgba, false),
        ColorType::L16 => (Channels::Gray, true),
        ColorType::La16 => (Channels::GrayAlpha, true),
        ColorType::Rgb16 => (Channels::Rgb, true),
        ColorType::Rgba16 => (Channels::Rgba, true),
        other => return Ok(Err(format!("its colours ({other:?}) are not known here"))),
    };
    let mut data = vec![0; usize::try_from(n_bytes).unwrap_or(usize::MAX)];
    decoder.read_image(&mut data)?;
    if is_wide {
        let n = data.len() / 2;
        for at in 0..n {
            let wide = u16::from_ne_bytes([data[2 * at], data[2 * at + 1]]);
            data[at] = ((u32::from(wide) + 128) / 257) as u8;
        }
        data.truncate(n);
    }
    Ok(Ok(Pixels {
        width,
        height,
        channels,
        data,
    }))
}

fn reason(error: &ImageError) -> String {
    match error {
        ImageError::Limits(_) => "it takes more memory than is allowed".to_owned(),
        _ => format!("it can't be decoded ({error})"),
    }
}

/// The filter by which each new pixel is the mean of an area of `scale` × `scale` old ones, those at its border counted
/// by how much of them lies inside.
///
/// Filters see distances in new pixels and not how large an old one is, so there is one for each quarter of a pixel;
/// above the last, borders weigh so little that a plain box is the same.
fn area_filter(scale: f64) -> FilterType {
    const AREAS: [fn(f64) -> f64; 29] = [
        area::<4>, area::<5>, area::<6>, area::<7>, area::<8>, area::<9>, area::<10>, area::<11>,
        area::<12>, area::<13>, area::<14>, area::<15>, area::<16>, area::<17>, area::<18>,
        area::<19>, area::<20>, area::<21>, area::<22>, area::<23>, area::<24>, area::<25>,
        area::<26>, area::<27>, area::<28>, area::<29>, area::<30>, area::<31>, area::<32>,
    ];
    let quarters = (scale * 4.0).round();
    let filter = (quarters as usize)
        .checked_sub(4)
        .and_then(|n| AREAS.get(n));
    filter
        .and_then(|area| Filter::new("area", *area, 0.5 + 2.0 / quarters).ok())
        .map_or(FilterType::Box, FilterType::Custom)
}

/// How much of an old pixel at this distance (in new pixels) lies in the area of a new one, where a new one is as wide as
/// `QUARTERS / 4` old ones.
fn area<const QUARTERS: u32>(distance: f64) -> f64 {
    let scale = f64::from(QUARTERS) / 4.0;
    (scale * (0.5 - distance.abs()) + 0.5).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(width: u32, height: u32, value: impl Fn(u32, u32) -> u8) -> Pixels {
        let data = (0..height)
            .flat_map(|y| (0..width).map(move |x| (x, y)))
            .map(|(x, y)| value(x, y))
            .collect();
        Pixels {
            width,
            height,
            channels: Channels::Gray,
            data,
        }
    }

    fn mean(pixels: &Pixels) -> f64 {
        pixels
            .data
            .iter()
            .map(|sample| f64::from(*sample))
            .sum::<f64>()
            / pixels.data.len() as f64
    }

    #[test]
    fn scaling_keeps_brightness_and_makes_no_patterns() {
        for (width, height, edge) in [(300, 200, 100), (300, 200, 237), (331, 99, 40), (500, 3, 9)]
        {
            let chess = gray(width, height, |x, y| if (x + y) % 2 == 0 { 255 } else { 0 });
            let before = mean(&chess);
            let small = chess.fitted(edge).unwrap();
            assert_eq!(small.edge(), edge);
            assert!(
                (mean(&small) - before).abs() < 2.0,
                "{} {before}",
                mean(&small)
            );
        }
        // Where nine pixels become one, black and white may differ by one of nine.
        let chess = gray(300, 300, |x, y| if (x + y) % 2 == 0 { 255 } else { 0 });
        let small = chess.fitted(100).unwrap();
        assert!(
            small.data.iter().all(|sample| (110..=145).contains(sample)),
            "{:?}",
            &small.data[..8]
        );
        // A line of one pixel stays visible, wherever it falls.
        for at in 0..40 {
            let line = gray(400, 40, |x, _| if x == 200 + at { 255 } else { 0 });
            let small = line.fitted(290).unwrap();
            let brightest = small.data.iter().max().unwrap();
            assert!((85..=200).contains(brightest), "{at}: {brightest}");
        }
    }

    #[test]
    fn colours_of_transparent_pixels_do_not_bleed() {
        let (red, clear_green) = ([255, 0, 0, 255], [0, 255, 0, 0]);
        let data = (0..16 * 16)
            .flat_map(|n| if n % 2 == 0 { red } else { clear_green })
            .collect();
        let pixels = Pixels {
            width: 16,
            height: 16,
            channels: Channels::Rgba,
            data,
        };
        let small = pixels.fitted(8).unwrap();
        for pixel in small.data.chunks_exact(4) {
            assert!(pixel[0] >= 250 && pixel[1] <= 2, "{pixel:?}");
            assert!((126..=129).contains(&pixel[3]), "{pixel:?}");
        }
    }

    #[test]
    fn no_side_vanishes_and_nothing_grows() {
        let small = gray(5000, 1, |_, _| 7).fitted(10).unwrap();
        assert_eq!((small.width, small.height), (10, 1));
        let same = gray(10, 10, |x, _| x as u8);
        assert_eq!(same.clone().fitted(10).unwrap(), same);
        assert_eq!(same.clone().fitted(11).unwrap(), same);
    }

    #[test]
    fn crops_hold_the_pixels_of_their_place() {
        let mut pixels = gray(9, 7, |x, y| (10 * y + x) as u8);
        pixels.crop(Rect {
            x: 3,
            y: 2,
            width: 2,
            height: 4,
        });
        assert_eq!(pixels.data, [23, 24, 33, 34, 43, 44, 53, 54]);
        assert_eq!((pixels.width, pixels.height), (2, 4));
    }

    #[test]
    fn transparency_that_is_not_used_goes() {
        let mut opaque = Pixels {
            width: 2,
            height: 1,
            channels: Channels::Rgba,
            data: vec![1, 2, 3, 255, 4, 5, 6, 255],
        };
        let mut clear = opaque.clone();
        opaque.simplify();
        assert_eq!(
            (opaque.channels, opaque.data),
            (Channels::Rgb, vec![1, 2, 3, 4, 5, 6])
        );
        clear.data[7] = 254;
        let before = clear.clone();
        clear.simplify();
        assert_eq!(clear, before);
    }
}
