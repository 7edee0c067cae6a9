"""Reads pictures and labels out of TFRecord files with TF-slim: a dataset, five readers, batches of four threads.

    python examples/tf1_slim.py

A program as they were written in 2017. Only its import line has been changed. (`pip install 'headrace[image]'`)
"""

import io
import os

import numpy as np
from PIL import Image

import headrace.tf1 as tf

slim = tf.contrib.slim

CLASSES, SIZE = 5, 24


def feature(value):
    """A feature of one value."""
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


# Files of pictures, if they aren't there yet: of class k are those with the grey value 40 k
if not os.path.exists("pictures"):
    os.makedirs("pictures")
    for part in range(3):
        with tf.python_io.TFRecordWriter(f"pictures/train-{part}.tfrecord") as writer:
            for number in range(20):
                label = (part + number) % CLASSES
                encoded = io.BytesIO()
                Image.fromarray(np.full((30 + number, 40, 3), 40 * label, np.uint8)).save(encoded, "PNG")
                features = {
                    "image/encoded": feature(encoded.getvalue()),
                    "image/format": feature(b"png"),
                    "image/class/label": feature(label),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

# What is in a record, and what to make of it
keys_to_features = {
    "image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
    "image/format": tf.FixedLenFeature((), tf.string, default_value="raw"),
    "image/class/label": tf.FixedLenFeature([1], tf.int64, default_value=tf.zeros([1], dtype=tf.int64)),
}
items_to_handlers = {
    "image": slim.tfexample_decoder.Image(image_key="image/encoded", format_key="image/format", channels=3),
    "label": slim.tfexample_decoder.Tensor("image/class/label", shape=[]),
}
dataset = slim.dataset.Dataset(
    data_sources="pictures/train-*.tfrecord",
    reader=tf.TFRecordReader,
    decoder=slim.tfexample_decoder.TFExampleDecoder(keys_to_features, items_to_handlers),
    num_samples=60,
    items_to_descriptions={"image": "a grey picture", "label": "which grey, from 0 to 4"},
    num_classes=CLASSES,
)

# Five readers fill a common queue; four threads decode, resize and join; whole batches wait in a last queue.
provider = slim.dataset_data_provider.DatasetDataProvider(
    dataset, num_readers=5, common_queue_capacity=20, common_queue_min=10, shuffle=True
)
image, label = provider.get(["image", "label"])
image = tf.image.resize_image_with_crop_or_pad(image, SIZE, SIZE)
images, labels = tf.train.batch([image, label], batch_size=10, num_threads=4, capacity=50)
labels = slim.one_hot_encoding(labels, dataset.num_classes)
batch_queue = slim.prefetch_queue.prefetch_queue([images, labels], capacity=2)
images, labels = batch_queue.dequeue()

with tf.Session() as sess:
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess, coord)
    right = 0
    for _step in range(30):
        pixels, hot = sess.run([images, labels])
        assert pixels.shape == (10, SIZE, SIZE, 3)
        right += int((pixels[:, SIZE // 2, SIZE // 2, 0] // 40 == hot.argmax(axis=1)).sum())
    coord.request_stop()
    coord.join(threads)
print(f"30 batches, {right} of 300 pictures with their labels")
