"""Errors of the library arrive as exceptions of their kind, with the texts of the command line."""

import os
import pickle
import tempfile
import unittest

import flotilla


class Errors(unittest.TestCase):
    def assert_error(self, kind, text, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIs(type(caught.exception), kind)
        self.assertIn(text, str(caught.exception))
        return caught.exception

    def test_classes_have_the_exit_status_of_their_kind(self):
        kinds = {flotilla.CheckFailed: 1, flotilla.UsageError: 2, flotilla.EnvFailure: 3,
                 flotilla.DataError: 4, flotilla.NumericError: 5, flotilla.InternalError: 70,
                 flotilla.Interrupted: 130}
        for kind, status in kinds.items():
            self.assertTrue(issubclass(kind, flotilla.Error))
            self.assertEqual(kind.status, status)
        self.assertTrue(issubclass(flotilla.UsageError, ValueError))

    def test_usage(self):
        error = self.assert_error(flotilla.UsageError, "did you mean 'cartpole'",
                                  lambda: flotilla.train("cartpol"))
        self.assertEqual(error.status, 2)
        self.assert_error(flotilla.UsageError, "learning_rat",
                          lambda: flotilla.train("cartpole", learning_rat=1))
        self.assert_error(flotilla.UsageError, "expected a value, got None",
                          lambda: flotilla.train("cartpole", num_envs=None))
        self.assert_error(flotilla.UsageError, "say what to train", flotilla.train)

    def test_data(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            with open(path, "wb") as file:
                file.write(b"no policy")
            error = self.assert_error(flotilla.DataError, path,
                                      lambda: flotilla.Policy.load(path))
            self.assertEqual(error.status, 4)
            self.assert_error(flotilla.UsageError, folder, lambda: flotilla.Run(folder))

    def test_they_can_be_pickled(self):
        error = self.assert_error(flotilla.UsageError, "", flotilla.train)
        copy = pickle.loads(pickle.dumps(error))
        self.assertIs(type(copy), flotilla.UsageError)
        self.assertEqual((str(copy), copy.status), (str(error), 2))

    def test_stray_bytes_do_not_hide_the_message(self):
        self.assert_error(flotilla.UsageError, "no-run",
                          lambda: flotilla.Run(os.fsdecode(b"no-run\xff")))


if __name__ == "__main__":
    unittest.main()
