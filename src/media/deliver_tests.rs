//! Every way an image is delivered, on images made here.

use tokio_util::sync::CancellationToken;

use super::deliver::{Delivered, How, Rect, Room, Undelivered, Wish, deliver};
use super::header::Header;
use super::kind::ImageKind;
use super::pixels::Pixels;
use super::pool::ImagePool;
use super::testing::{self, Photo};
use crate::kernel::limits::{IMAGE_BYTES, IMAGE_EDGE, IMAGE_READ_BYTES};

const READ: Room = Room {
    edge: IMAGE_EDGE,
    bytes: IMAGE_READ_BYTES,
};

async fn give(bytes: &[u8], wish: Wish) -> Result<Delivered, Undelivered> {
    let given = deliver(
        &ImagePool::default(),
        bytes.to_vec().into(),
        wish,
        &CancellationToken::new(),
    )
    .await;
    if let Ok(given) = &given {
        // Whatever was done, what is said about it is true.
        let header = Header::read(&given.bytes).unwrap();
        assert_eq!((header.kind, header.size), (given.kind, given.size));
        assert!(given.bytes.len() <= bytes.len().max(IMAGE_BYTES));
    }
    given
}

async fn fit(bytes: &[u8], edge: u32, n_bytes: usize) -> Result<Delivered, Undelivered> {
    let room = Room {
        edge,
        bytes: n_bytes,
    };
    let given = give(bytes, Wish::Fit(room)).await;
    if let Ok(given) = &given {
        assert!(given.bytes.len() <= n_bytes && given.size.0.max(given.size.1) <= edge);
        // A result is never made smaller again.
        let again = give(&given.bytes, Wish::Fit(room)).await.unwrap();
        assert_eq!(
            (again.how, &again.bytes),
            (How::Untouched, &given.bytes),
            "a second time"
        );
    }
    given
}

fn crop(x: u32, y: u32, width: u32, height: u32, edge: Option<u32>) -> Wish {
    let rect = Rect {
        x,
        y,
        width,
        height,
    };
    Wish::Crop { rect, edge }
}

#[tokio::test]
async fn what_fits_is_passed_as_it_is() {
    let photo = testing::noise(60, 40);
    for bytes in [
        testing::png(&photo),
        testing::jpeg(&photo),
        testing::webp(&photo),
        testing::gif(60, 40, 3),
        testing::animated_webp(60, 40),
    ] {
        let given = fit(&bytes, 60, bytes.len()).await.unwrap();
        assert_eq!((given.how, given.original), (How::Untouched, (60, 40)));
        assert_eq!(given.bytes, bytes);
    }
}

#[tokio::test]
async fn too_many_pixels_or_bytes_are_made_fewer() {
    let noise = testing::noise(1200, 900);
    let drawing = testing::gradient(1200, 900);
    for (bytes, edge, n_bytes, kind, size) in [
        // Edge alone.
        (
            testing::png(&drawing),
            600,
            IMAGE_READ_BYTES,
            ImageKind::Png,
            (600, 450),
        ),
        (
            testing::jpeg(&drawing),
            600,
            IMAGE_READ_BYTES,
            ImageKind::Jpeg,
            (600, 450),
        ),
        (
            testing::webp(&drawing),
            600,
            IMAGE_READ_BYTES,
            ImageKind::Png,
            (600, 450),
        ),
        // Bytes: noise is too much for a PNG even at 1000 pixels, and then loses quality first.
        (
            testing::png(&noise),
            2000,
            IMAGE_READ_BYTES,
            ImageKind::Jpeg,
            (1000, 750),
        ),
        (
            testing::webp(&noise),
            2000,
            IMAGE_READ_BYTES,
            ImageKind::Jpeg,
            (1000, 750),
        ),
        // A photograph keeps its size as long as its quality can pay for it.
        (
            testing::jpeg(&noise),
            2000,
            500_000,
            ImageKind::Jpeg,
            (1200, 900),
        ),
        // Then pixels go.
        (
            testing::jpeg(&noise),
            2000,
            20_000,
            ImageKind::Jpeg,
            (512, 384),
        ),
    ] {
        let given = fit(&bytes, edge, n_bytes).await.unwrap();
        assert_eq!(
            (given.how, given.kind, given.size, given.original),
            (How::Scaled, kind, size, (1200, 900)),
            "{edge} {n_bytes}"
        );
    }
}

#[tokio::test]
async fn what_can_not_be_made_to_fit_is_not_delivered() {
    let noise = testing::noise(300, 200);
    for bytes in [testing::png(&noise), testing::jpeg(&noise)] {
        assert_eq!(fit(&bytes, 2000, 300).await, Err(Undelivered::TooLarge));
    }
    for bytes in [testing::gif(60, 40, 2), testing::animated_webp(60, 40)] {
        assert_eq!(fit(&bytes, 50, 100_000).await, Err(Undelivered::Moves));
        let part = give(&bytes, crop(0, 0, 5, 5, None)).await;
        assert_eq!(part, Err(Undelivered::Moves));
    }
}

#[tokio::test]
async fn noisy_screenshots_fit_the_budget_of_a_read() {
    let bytes = testing::png(&testing::noise(2400, 1800));
    let given = fit(&bytes, READ.edge, READ.bytes).await.unwrap();
    assert_eq!((given.how, given.original), (How::Scaled, (2400, 1800)));
}

#[tokio::test]
async fn thin_images_keep_their_thin_side() {
    let bytes = testing::png(&testing::gradient(9000, 3));
    let given = fit(&bytes, READ.edge, READ.bytes).await.unwrap();
    assert_eq!(given.size, (2000, 1));
}

/// The colour in the middle of an image without loss.
fn middle(given: &Delivered) -> [u8; 3] {
    let pixels = Pixels::decode(given.kind, &given.bytes, 1 << 30).unwrap();
    let n = pixels.channels.n();
    let at = (pixels.height as usize / 2 * pixels.width as usize + pixels.width as usize / 2) * n;
    [
        pixels.data[at],
        pixels.data[at + 1 % n],
        pixels.data[at + 2 % n],
    ]
}

#[tokio::test]
async fn crops_are_cut_off_at_the_border() {
    let photo = testing::gradient(300, 150);
    let bytes = testing::png(&photo);
    let given = give(&bytes, crop(250, 100, 100, 100, Some(2000)))
        .await
        .unwrap();
    let part = Rect {
        x: 250,
        y: 100,
        width: 50,
        height: 50,
    };
    assert_eq!(
        (given.how, given.size, given.original),
        (How::Cropped(part), (50, 50), (300, 150))
    );
    assert_eq!(middle(&given), photo.get_pixel(275, 125).0);
    for (x, y) in [(300, 0), (0, 150), (u32::MAX, u32::MAX)] {
        let wish = crop(x, y, u32::MAX, u32::MAX, Some(2000));
        assert_eq!(
            give(&bytes, wish).await,
            Err(Undelivered::Outside((300, 150)))
        );
    }
    let all = give(&bytes, crop(0, 0, u32::MAX, u32::MAX, None))
        .await
        .unwrap();
    assert_eq!(all.size, (300, 150));
}

#[tokio::test]
async fn crops_are_made_to_fit_unless_every_pixel_is_wanted() {
    let photo = testing::noise(900, 600);
    let (png, jpeg) = (testing::png(&photo), testing::jpeg(&photo));
    let scaled = give(&png, crop(0, 0, 800, 400, Some(200))).await.unwrap();
    assert_eq!((scaled.size, scaled.kind), ((200, 100), ImageKind::Png));
    let whole = give(&png, crop(0, 0, 800, 400, None)).await.unwrap();
    assert_eq!((whole.size, whole.kind), ((800, 400), ImageKind::Png));
    let photograph = give(&jpeg, crop(0, 0, 800, 400, None)).await.unwrap();
    assert_eq!(
        (photograph.size, photograph.kind),
        ((800, 400), ImageKind::Jpeg)
    );
    // Every pixel of it takes more than is ever sent; made to fit, it takes less.
    let large = testing::png(&testing::noise(1500, 1200));
    let part = |edge| crop(0, 0, 1400, 1100, edge);
    assert_eq!(give(&large, part(None)).await, Err(Undelivered::TooLarge));
    let fitted = give(&large, part(Some(2000))).await.unwrap();
    assert_eq!((fitted.size, fitted.kind), ((1000, 786), ImageKind::Png));
}

#[tokio::test]
async fn full_images_are_their_own_bytes() {
    let photo = testing::noise(900, 600);
    for bytes in [
        testing::png(&photo),
        testing::jpeg(&photo),
        testing::gif(30, 20, 2),
    ] {
        let given = give(&bytes, Wish::Full).await.unwrap();
        assert_eq!((given.how, &given.bytes[..]), (How::Untouched, &bytes[..]));
    }
    let heavy = testing::png(&testing::noise(1500, 1200));
    assert!(heavy.len() > IMAGE_BYTES);
    let long = testing::png(&testing::gradient(9000, 100));
    for bytes in [heavy, long] {
        assert_eq!(give(&bytes, Wish::Full).await, Err(Undelivered::TooLarge));
    }
}

/// Four colours, one in each corner, as stored.
fn corners(width: u32, height: u32) -> Photo {
    Photo::from_fn(width, height, |x, y| {
        image::Rgb(match (x < width / 2, y < height / 2) {
            (true, true) => [200, 0, 0],
            (false, true) => [0, 200, 0],
            (true, false) => [0, 0, 200],
            (false, false) => [200, 200, 200],
        })
    })
}

#[tokio::test]
async fn turned_images_are_delivered_as_displayed() {
    let stored = corners(400, 300);
    for way in 1..=8 {
        let bytes = testing::turned_png(&stored, way);
        let mut displayed = image::DynamicImage::ImageRgb8(stored.clone());
        displayed.apply_orientation(image::metadata::Orientation::from_exif(way).unwrap());
        let displayed = displayed.into_rgb8();
        let (width, height) = displayed.dimensions();
        let scaled = fit(&bytes, 200, 1 << 20).await.unwrap();
        assert_eq!(scaled.original, (width, height), "{way}");
        assert_eq!(scaled.size, (width / 2, height / 2), "{way}");
        for (x, y) in [(0, 0), (width - 20, 0), (0, height - 20)] {
            for edge in [Some(2000), Some(10), None] {
                let part = give(&bytes, crop(x, y, 20, 20, edge)).await.unwrap();
                let expected = displayed.get_pixel(x + 10, y + 10).0;
                assert_eq!(middle(&part), expected, "{way} {x},{y} {edge:?}");
            }
        }
    }
}

#[tokio::test]
async fn transparency_and_depth_survive() {
    let mut wide = Vec::new();
    let deep = image::ImageBuffer::from_fn(40, 40, |x, _| image::Rgba([x as u16 * 1000; 4]));
    image::DynamicImage::ImageRgba16(deep)
        .write_to(
            &mut std::io::Cursor::new(&mut wide),
            image::ImageFormat::Png,
        )
        .unwrap();
    let given = fit(&wide, 20, 100_000).await.unwrap();
    let pixels = Pixels::decode(given.kind, &given.bytes, 1 << 20).unwrap();
    assert_eq!(pixels.channels.n(), 4);
    let mut gray = Vec::new();
    image::DynamicImage::ImageLuma8(image::GrayImage::from_pixel(40, 40, image::Luma([7])))
        .write_to(
            &mut std::io::Cursor::new(&mut gray),
            image::ImageFormat::Png,
        )
        .unwrap();
    let given = fit(&gray, 20, 100_000).await.unwrap();
    let pixels = Pixels::decode(given.kind, &given.bytes, 1 << 20).unwrap();
    assert_eq!((pixels.channels.n(), pixels.data[0]), (1, 7));
}

#[tokio::test]
async fn a_cancelled_delivery_ends() {
    let bytes = testing::png(&testing::noise(300, 200));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let wish = Wish::Fit(Room {
        edge: 10,
        bytes: 1000,
    });
    let given = deliver(&ImagePool::default(), bytes.into(), wish, &cancel).await;
    assert_eq!(given, Err(Undelivered::Cancelled));
}
