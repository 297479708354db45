#!/usr/bin/env python3
"""Counts the parameters of configurations with `transformers` itself, and compares with planctl.

usage: transformers_test.py --planctl PROGRAM --source FOLDER

Each configuration of tests/clients/import/data becomes a model on PyTorch's meta device, which has
shapes and no values, by the class that its `architectures` or its `model_type` names. Its
parameters, each once, are those that `planctl import hf` gives the layers, to 0.5 %. What
`transformers` does not know, or has as another model, is listed with the reason and counted.

The same holds for published_configurations.json, whose families differ in structure, with the
fields of the published files; and for the configuration that `transformers` itself makes for each
family of language models that planctl reads by name, and for each unknown one that planctl reads by
its fields.
Python must have torch, transformers and the package of clients/python.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

FLAGS = None
LARGEST_DIFFERENCE = 0.005
# Families whose default configuration planctl reads as another model than transformers makes of it,
# and why.
OTHERWISE = {
    "git": "a tower of images",
    "longcat_flash": "matrices of experts that compute nothing",
    "omniasr": "a tower of sounds",
    "phi4_multimodal": "towers of images and sounds",
    "marian": "sines in a table that nothing trains",
    "pegasus": "sines in a table that nothing trains",
    "whisper": "its decoder alone, since the class with the encoder is of another list",
}
# Towers and layers that planctl leaves out, with a note, by the name of a configuration.
LEFT_OUT = ("visual", "vision_tower", "vision_model", "multi_modal_projector", "mtp")


def model_class(transformers, config):
    """Returns the class that people load the configuration with."""
    for name in config.architectures or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    for auto in (transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForMaskedLM,
                 transformers.AutoModelForCausalLM, transformers.AutoModelForImageClassification):
        if type(config) in auto._model_mapping.keys():
            return auto._model_mapping[type(config)]
    return None


def parameters_of(made, config):
    """Returns how many parameters a model of the class has without its towers."""
    import torch
    with torch.device("meta"):
        model = made(config)
    # Shared parameters are one object.
    return sum(parameter.numel() for name, parameter in model.named_parameters()
               if not any(part in LEFT_OUT for part in name.split(".")))


def count_by_transformers(content):
    """Returns the number of parameters, or None and why there is none."""
    import transformers
    kind = content["model_type"]
    # A field that is null has its default; newer releases refuse some of these.
    given = {name: value for name, value in content.items() if value is not None}
    if kind in transformers.CONFIG_MAPPING:
        config = transformers.AutoConfig.for_model(**given)
    else:
        # Files with code of their own may name a class that is built in.
        built_in = next((getattr(transformers, name) for name in given.get("architectures", [])
                         if hasattr(transformers, name)), None)
        if built_in is None:
            return None, f"transformers has no model_type {kind}"
        given["model_type"] = built_in.config_class.model_type
        config = built_in.config_class(**given)
    made = model_class(transformers, config)
    if made is None:
        return None, f"transformers has no head for {kind}"
    count = parameters_of(made, config)
    if kind == "t5" and content.get("tie_word_embeddings") is False:
        # Since release 5 the class ties the head all the same (configuration_t5.py: "in fact we tie
        # weights always"); published counts and checkpoints have it apart.
        count += content["vocab_size"] * content["d_model"]
    return count, ""


def count_by_planctl(path, folder):
    from parplan.wire import json_file
    from parplan.wire.layer_parameters import with_defaults
    out = folder / "model.json"
    done = subprocess.run([FLAGS.planctl, "import", "hf", path, "--prediction-layers", "0", "--out",
                           out], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    model = json_file.parse(out.read_bytes(), "ModelSpec", path.name)
    counts = {one.layer_definition_id: with_defaults(one).parameter_count
              for one in model.layer_definitions}
    return sum(counts[run.layer_definition_id] * run.layer_count for run in model.layer_runs), ""


class ParametersTest(unittest.TestCase):
    def test_transformers_counts_the_parameters_that_planctl_counts(self):
        files = sorted((FLAGS.source / "tests" / "clients" / "import" / "data").glob("*.json"))
        self.assertGreaterEqual(len(files), 23)
        compared = []
        with tempfile.TemporaryDirectory() as folder:
            for path in files:
                content = json.loads(path.read_text())
                theirs, why = count_by_transformers(content)
                ours, refusal = count_by_planctl(path, pathlib.Path(folder))
                if theirs is None or ours is None:
                    print(f"{path.stem:20} not compared: {why or refusal}", flush=True)
                    continue
                difference = ours / theirs - 1
                print(f"{path.stem:20} planctl {ours:16,} transformers {theirs:16,} "
                      f"{difference:+.4%}", flush=True)
                compared.append((path.stem, difference))
        self.assertGreaterEqual(len(compared), 20)
        for name, difference in compared:
            with self.subTest(name):
                self.assertLessEqual(abs(difference), LARGEST_DIFFERENCE)

    def test_published_configurations_have_the_parameters_that_planctl_counts(self):
        """Compares configurations with the sizes and the fields that their authors published (from
        memory of the files, unverified)."""
        text = (FLAGS.source / "tests" / "frameworks" / "published_configurations.json").read_text()
        published = json.loads(text)
        self.assertGreaterEqual(len(published), 20)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            for name, content in published.items():
                with self.subTest(name):
                    path.write_text(json.dumps(content))
                    ours, refusal = count_by_planctl(path, pathlib.Path(folder))
                    self.assertIsNotNone(ours, refusal)
                    theirs, why = count_by_transformers(content)
                    self.assertIsNotNone(theirs, why)
                    difference = ours / theirs - 1
                    print(f"{name:20} planctl {ours:16,} transformers {theirs:16,} "
                          f"{difference:+.4%}", flush=True)
                    self.assertLessEqual(abs(difference), LARGEST_DIFFERENCE)

    def test_default_configurations_have_the_parameters_that_planctl_counts(self):
        import transformers
        from transformers.models.auto import modeling_auto
        kinds = sorted({*modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
                        *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
                        *modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES})
        compared = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            for kind in kinds:
                # Some classes make no model of their own defaults, each with an error of its own.
                try:
                    config = transformers.CONFIG_MAPPING[kind]()
                    made = model_class(transformers, config)
                    content = {**config.to_dict(), "architectures": [made.__name__]}
                    if isinstance(content.get("text_config"), dict):
                        continue  # Towers have many names; the other test has some such models.
                    # As Python writes it, with Infinity.
                    path.write_text(json.dumps(content, default=str))
                    ours, _ = count_by_planctl(path, pathlib.Path(folder))
                    theirs = parameters_of(made, config) if ours is not None else None
                except Exception as error:  # pylint: disable=broad-exception-caught
                    print(f"{kind:20} not made: {str(error).splitlines()[0]}", flush=True)
                    continue
                if ours is None:
                    print(f"{kind:20} refused", flush=True)
                    continue
                difference = ours / theirs - 1
                print(f"{kind:20} planctl {ours:16,} transformers {theirs:16,} {difference:+.4%}",
                      flush=True)
                compared.append((kind, difference))
        self.assertGreaterEqual(len(compared), 80)
        for kind, difference in compared:
            if kind in OTHERWISE:
                continue
            with self.subTest(kind):
                self.assertLessEqual(abs(difference), LARGEST_DIFFERENCE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    FLAGS, rest = parser.parse_known_args()
    FLAGS.planctl = str(pathlib.Path(FLAGS.planctl).resolve())
    unittest.main(argv=[sys.argv[0], *rest])
