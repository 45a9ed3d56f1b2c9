//! Files made to hurt: small ones that promise a lot, cut ones, and ones with any byte turned into another.

use tokio_util::sync::CancellationToken;

use super::deliver::{How, Rect, Room, Undelivered, Wish, deliver};
use super::header::Header;
use super::kind::sniff;
use super::pixels::Pixels;
use super::pool::ImagePool;
use super::testing;
use crate::kernel::limits::{IMAGE_DECODE_INPUT_BYTES, IMAGE_EDGE, IMAGE_READ_BYTES};

const FIT: Wish = Wish::Fit(Room {
    edge: IMAGE_EDGE,
    bytes: IMAGE_READ_BYTES,
});
const CROP: Wish = Wish::Crop {
    rect: Rect {
        x: 0,
        y: 0,
        width: 10,
        height: 10,
    },
    edge: None,
};

async fn refused(bytes: &[u8], wish: Wish) -> Undelivered {
    let cancel = CancellationToken::new();
    deliver(&ImagePool::default(), bytes.to_vec().into(), wish, &cancel)
        .await
        .unwrap_err()
}

/// Data that a decoder would notice at once: whoever reports the number of pixels has not looked at it.
const NO_PIXELS: &[u8] = b"these are no pixels";

#[tokio::test]
async fn promises_beyond_measure_are_refused_unseen() {
    for size in [
        (30_000, 30_000),
        (u32::MAX, u32::MAX),
        (u32::MAX, 1),
        (1, 200_000_000),
        (10_001, 10_000),
    ] {
        let bytes = testing::promising_png(size.0, size.1, NO_PIXELS);
        assert!(bytes.len() < 100);
        for wish in [FIT, CROP] {
            assert_eq!(
                refused(&bytes, wish).await,
                Undelivered::TooManyPixels(size)
            );
        }
        assert_eq!(refused(&bytes, Wish::Full).await, Undelivered::TooLarge);
    }
    // Within the number of pixels, but each has eight bytes.
    let mut deep = testing::promising_png(9000, 9000, NO_PIXELS);
    deep[24] = 16;
    assert_eq!(
        refused(&deep, FIT).await,
        Undelivered::TooManyPixels((9000, 9000))
    );
}

#[tokio::test]
async fn other_formats_promise_in_vain_as_well() {
    let photo = testing::noise(20, 20);
    // Sizes stand in the frame of a JPEG and in the header of an extended WebP.
    let mut jpeg = testing::jpeg(&photo);
    let frame = memchr::memmem::find(&jpeg, &[0xFF, 0xC0]).unwrap();
    jpeg[frame + 5..frame + 9].fill(0xFF);
    let webp = testing::webp(&photo);
    let mut extended = b"RIFF\0\0\0\0WEBPVP8X\x0A\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF".to_vec();
    extended.extend(&webp[12..]);
    let length = (extended.len() as u32 - 8).to_le_bytes();
    extended[4..8].copy_from_slice(&length);
    for (bytes, size) in [(jpeg, (65_535, 65_535)), (extended, (1 << 24, 1 << 24))] {
        assert_eq!(refused(&bytes, FIT).await, Undelivered::TooManyPixels(size));
    }
    let mut gif = testing::gif(20, 20, 1);
    gif[6..10].fill(0xFF);
    assert_eq!(refused(&gif, FIT).await, Undelivered::Moves);
}

#[tokio::test]
async fn a_gif_of_very_many_frames_is_passed_on_or_refused_but_never_decoded() {
    let one = testing::gif(8, 8, 1);
    let two = testing::gif(8, 8, 2);
    // What the second frame added, again and again.
    let frame = &two[one.len() - 1..two.len() - 1];
    let mut many = two[..two.len() - 1].to_vec();
    for _ in 0..20_000 {
        many.extend(frame);
    }
    many.push(b';');
    assert!(many.len() > IMAGE_READ_BYTES);
    assert!(Header::read(&many).unwrap().is_animated);
    assert_eq!(refused(&many, FIT).await, Undelivered::Moves);
}

#[tokio::test]
async fn pixels_that_are_not_there_are_missed() {
    let bytes = testing::promising_png(3000, 3000, NO_PIXELS);
    let Undelivered::Undecodable(reason) = refused(&bytes, FIT).await else {
        panic!("decoded")
    };
    assert!(reason.contains("can't be decoded"), "{reason}");
    let mut heavy = testing::jpeg(&testing::noise(30, 30));
    heavy.resize(IMAGE_DECODE_INPUT_BYTES + 1, 0);
    assert_eq!(
        refused(&heavy, FIT).await,
        Undelivered::TooManyBytes(IMAGE_DECODE_INPUT_BYTES + 1)
    );
}

#[test]
fn a_decoder_takes_no_more_memory_than_it_may() {
    let bytes = testing::png(&testing::noise(200, 200));
    let kind = Header::read(&bytes).unwrap().kind;
    assert!(Pixels::decode(kind, &bytes, 200 * 200 * 3 - 1).is_err());
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[tokio::test]
async fn any_byte_turned_into_another_is_survived() {
    let photo = testing::noise(24, 18);
    let seed = 0x5EED_1234_5678_9ABC;
    let mut dice = Dice(seed);
    let pool = ImagePool::default();
    let cancel = CancellationToken::new();
    let (mut n_given, mut n_untouched) = (0, 0);
    for bytes in [
        testing::png(&photo),
        testing::jpeg(&photo),
        testing::turned_jpeg(&photo, 6),
        testing::webp(&photo),
        testing::gif(24, 18, 2),
        testing::animated_webp(24, 18),
    ] {
        for _ in 0..250 {
            let mut hurt = bytes.clone();
            for _ in 0..=dice.below(4) {
                let at = dice.below(hurt.len());
                hurt[at] = dice.below(256) as u8;
            }
            if dice.below(8) == 0 {
                hurt.truncate(dice.below(hurt.len()));
            }
            let room = Room {
                edge: 12,
                bytes: 2000,
            };
            for wish in [Wish::Fit(room), CROP] {
                let given = deliver(&pool, hurt.clone().into(), wish, &cancel).await;
                if let Ok(given) = given {
                    n_given += 1;
                    assert!(sniff(&given.bytes).is_some());
                    // A header may have shrunk enough to fit; then nothing was decoded.
                    n_untouched += usize::from(given.how == How::Untouched);
                }
            }
        }
    }
    assert!(
        n_given - n_untouched > 100,
        "hardly anything was decoded: {n_given}, {n_untouched}, seed {seed:x}"
    );
}
