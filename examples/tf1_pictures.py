"""Reads three pictures five times over with TensorFlow 1's queue of file names, and writes what comes.

    python examples/tf1_pictures.py

A program as they were written in 2017. Only its import line has been changed. (`pip install 'headrace[image]'`)
"""

import os

import numpy as np
from PIL import Image

import headrace.tf1 as tf

# Three pictures, if they aren't there yet
for number, name in enumerate(["A.jpg", "B.jpg", "C.jpg"]):
    if not os.path.exists(name):
        Image.fromarray(np.full((32, 48, 3), 80 * number, np.uint8)).save(name)

if not os.path.exists("read"):
    os.makedirs("read")

with tf.Session() as sess:
    # The names go into a queue, five times each; a reader takes one at a time and gives the whole file.
    filenames = ["A.jpg", "B.jpg", "C.jpg"]
    filename_queue = tf.train.string_input_producer(filenames, shuffle=False, num_epochs=5)
    reader = tf.WholeFileReader()
    key, value = reader.read(filename_queue)

    # The number of passes is counted in a local variable. Then threads begin to fill the queue.
    tf.local_variables_initializer().run()
    threads = tf.train.start_queue_runners(sess=sess)
    i = 0
    try:
        while True:
            i += 1
            image_data = sess.run(value)
            with open(f"read/test_{i}.jpg", "wb") as f:
                f.write(image_data)
    except tf.errors.OutOfRangeError as end:
        print(f"{i - 1} pictures, then {type(end).__name__}")
