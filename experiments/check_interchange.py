"""Loads the `ioh` and `coco` folders of recorded results with the real readers, and says what they made of them.

    pip install iohinspector cocopp six
    python check_interchange.py RESULTS [OUT]

With OUT, cocopp's whole post-processing is run into that folder (minutes).
"""

import glob
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")


def check_ioh(folder, runs):
    import iohinspector

    manager = iohinspector.DataManager()
    for algorithm in sorted(glob.glob(os.path.join(folder, "ioh", "*"))):
        manager.add_folder(algorithm)
    frame = manager.load(monotonic=True, include_meta_data=True)
    loaded = frame.select(["algorithm_name", "function_id", "data_id"]).unique().height
    print(f"iohinspector {getattr(iohinspector, '__version__', '')}: {frame.height} rows, {loaded} runs of {runs}")
    return loaded == runs


def check_coco(folder, out, names, dimensions, runs):
    import cocopp
    from cocopp import testbedsettings

    class Espalier(testbedsettings.GECCOBBOBTestbed):
        """Searches of training plans; values are distances to the reference."""

        over = dict(
            name="espalier",
            short_names=names,
            dimensions_to_display=dimensions,
            goto_dimension=dimensions[-1],
            rldDimsOfInterest=dimensions,
            tabDimsOfInterest=dimensions,
            functions_with_legend=(1, max(names)),
            first_function_number=1,
            last_function_number=max(names),
            reference_algorithm_filename="",
            reference_algorithm_displayname=None,
            ppfigs_ftarget=1e-4,
            pptable_ftarget=1e-4,
        )

        def __init__(self, targets):
            keep = dict(testbedsettings.GECCOBBOBTestbed.settings)
            testbedsettings.GECCOBBOBTestbed.settings.update(self.over)
            try:
                super().__init__(targets)
            finally:
                testbedsettings.GECCOBBOBTestbed.settings.clear()
                testbedsettings.GECCOBBOBTestbed.settings.update(keep)

        def filter(self, data):
            return data

    testbedsettings.Espalier = Espalier
    testbedsettings.suite_to_testbed["espalier"] = "Espalier"
    cocopp.genericsettings.interactive_mode = False
    algorithms = sorted(glob.glob(os.path.join(folder, "coco", "*")))
    loaded = 0
    for algorithm in algorithms:
        for data in cocopp.load(algorithm):
            loaded += sum(map(len, data.instancenumbers)) if hasattr(data.instancenumbers[0], "__len__") else len(data.instancenumbers)
    print(f"cocopp {cocopp.__version__}: {loaded} runs of {runs}")
    if out:
        cocopp.main(f"-o {out} " + " ".join(algorithms))
    return loaded == runs


def main():
    folder = sys.argv[1]
    out = sys.argv[2] if len(sys.argv) > 2 else None
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    known = [(n + 1, i) for n, i in enumerate(manifest["instances"]) if i["reference"]]
    runs = len(known) * len(manifest["backends"]) * manifest["suite"]["seeds"]["count"]
    names = {n: i["id"] for n, i in known}
    dimensions = tuple(sorted({max(1, i["depth"]) for _, i in known}))
    good = [check_ioh(folder, runs), check_coco(folder, out, names, dimensions, runs)]
    sys.exit(0 if all(good) else 1)


main()
